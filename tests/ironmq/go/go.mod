module millrace-ironmq-tests

go 1.18

require (
	github.com/iron-io/iron_go v0.0.0-20180607082653-56e218bf01ba
	github.com/iron-io/iron_go3 v0.0.0-20190916120531-a4a7f74b73ac
)
