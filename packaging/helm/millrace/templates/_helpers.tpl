{{- define "millrace.name" -}}
{{- if contains "millrace" .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-millrace" .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: millrace
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The secret with the keys; empty if nobody has to sign. */}}
{{- define "millrace.secret" -}}
{{- if .Values.credentials.existingSecret -}}
{{ .Values.credentials.existingSecret }}
{{- else if and .Values.credentials.accessKey .Values.credentials.secretKey -}}
{{ include "millrace.name" . }}
{{- else if not .Values.insecure -}}
{{ fail "give credentials.existingSecret, or credentials.accessKey and credentials.secretKey, or set insecure=true" }}
{{- end -}}
{{- end -}}
