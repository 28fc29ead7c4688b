/* Linked into the static programs by packaging/build.
 *
 * A static program loads what /etc/nsswitch.conf names beyond `files` and `dns` (resolve,
 * myhostname, mdns4_minimal, sss) from the machine. If the machine's glibc is of another version
 * than the one in the program, that ends the process. So names come from these two alone, which
 * glibc has built in.
 */
#include <nss.h>

__attribute__((constructor)) static void use_built_in_lookups(void) {
  __nss_configure_lookup("hosts", "files dns");
  __nss_configure_lookup("passwd", "files");
}
