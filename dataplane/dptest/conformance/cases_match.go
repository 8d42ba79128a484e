// SPDX-License-Identifier: Apache-2.0

package conformance

// portCases are about ports and their names.
func portCases() []judgeCase {
	return []judgeCase{
		{name: "S45: numbers and names in one list of ports", text: `
policy p types Ingress
  ingress Allow proto TCP dst.ports http,8443
pass TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 203.0.113.7 10.0.0.1 port 8443
drop TCP 203.0.113.7 10.0.0.1 port 8080
pass TCP 203.0.113.7 10.0.0.2 port 8080
`},
		{name: "S46: negated ports", text: `
policy p types Ingress
  ingress Allow proto TCP dst.notports http,8443,90:92
drop TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 8443
pass TCP 203.0.113.7 10.0.0.1 port 89
drop TCP 203.0.113.7 10.0.0.1 port 90
drop TCP 203.0.113.7 10.0.0.1 port 92
pass TCP 203.0.113.7 10.0.0.1 port 93
pass TCP 203.0.113.7 10.0.0.2 port 80
drop TCP 203.0.113.7 10.0.0.2 port 8080
`},
		{name: "S47: a long list of ports", text: `
policy p types Ingress
  ingress Allow proto TCP dst.ports 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35:39
pass TCP 203.0.113.7 10.0.0.1 port 1
pass TCP 203.0.113.7 10.0.0.1 port 33
pass TCP 203.0.113.7 10.0.0.1 port 36
drop TCP 203.0.113.7 10.0.0.1 port 34
`},
		{name: "S49: ranges include both ends", text: `
policy p types Ingress
  ingress Allow proto TCP dst.ports 100:102
drop TCP 203.0.113.7 10.0.0.1 port 99
pass TCP 203.0.113.7 10.0.0.1 port 100
pass TCP 203.0.113.7 10.0.0.1 port 102
drop TCP 203.0.113.7 10.0.0.1 port 103
`},
		{name: "S50: the first and the last port", text: `
policy p types Ingress
  ingress Deny proto TCP dst.ports 65535
  ingress Allow proto TCP dst.ports 1:65535
pass TCP 203.0.113.7 10.0.0.1 port 1
pass TCP 203.0.113.7 10.0.0.1 port 65534
drop TCP 203.0.113.7 10.0.0.1 port 65535
`},
		{name: "S51: a port name implies its protocol", text: `
policy p types Ingress
  ingress Allow dst.ports http,dns
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
pass UDP 203.0.113.7 10.0.0.2 port 53
drop TCP 203.0.113.7 10.0.0.2 port 53
`},
		{name: "S54: a port name resolves to a port for each address", text: `
policy p types Ingress
  ingress Allow proto TCP dst.ports http
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 8080
pass TCP 203.0.113.7 10.0.0.2 port 8080
drop TCP 203.0.113.7 10.0.0.2 port 80
pass TCP 2001:db8::7 fd00::1 port 80
drop TCP 2001:db8::7 fd00::1 port 8080
`},
		{name: "S59: an undefined port name matches nothing", text: `
policy p types Ingress
  ingress Deny proto TCP dst.ports nobody
  ingress Allow proto TCP dst.notports nobody dst.ports 81
  ingress Allow proto TCP dst.ports nobody
pass TCP 203.0.113.7 10.0.0.1 port 81
drop TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S60: source ports and SCTP", text: `
policy p types Ingress
  ingress Allow proto SCTP src.ports 2905 dst.ports 3868
pass SCTP 203.0.113.7 10.0.0.1 port 3868 sport 2905
drop SCTP 203.0.113.7 10.0.0.1 port 2905 sport 3868
drop SCTP 203.0.113.7 10.0.0.1 port 3868 sport 2904
drop TCP 203.0.113.7 10.0.0.1 port 3868 sport 2905
`},
	}
}

// protocolCases are about protocols, ICMP, and header fields.
func protocolCases() []judgeCase {
	return []judgeCase{
		{name: "S41: a rule without conditions", text: `
policy p types Ingress
  ingress Allow
pass 253 203.0.113.7 10.0.0.1
pass SCTP 203.0.113.7 10.0.0.1 port 9
pass ICMPv6 2001:db8::7 fd00::1 icmp 128/0
`},
		{name: "S42: every field, any entry of a list, none of a negated one", text: `
policy p types Ingress
  ingress Allow proto TCP src.nets 203.0.113.0/29,192.0.2.1/32 src.notnets 203.0.113.1/32,203.0.113.2/32 dst.ports 80
pass TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 192.0.2.1 10.0.0.1 port 80
drop TCP 203.0.113.1 10.0.0.1 port 80
drop TCP 203.0.113.2 10.0.0.1 port 80
drop TCP 203.0.113.9 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 81
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S62: any protocol but one", text: `
policy p types Ingress
  ingress Allow notproto TCP
drop TCP 203.0.113.7 10.0.0.1 port 80
pass UDP 203.0.113.7 10.0.0.1 port 80
pass ICMP 203.0.113.7 10.0.0.1 icmp 8/0
pass 253 203.0.113.7 10.0.0.1
`},
		{name: "S63: ICMP type 0 is a type", text: `
policy p types Ingress
  ingress Allow proto ICMP icmp 0/0
pass ICMP 203.0.113.7 10.0.0.1 icmp 0/0
drop ICMP 203.0.113.7 10.0.0.1 icmp 0/1
drop ICMP 203.0.113.7 10.0.0.1 icmp 8/0
`},
		{name: "S64: ICMP types with and without a code", text: `
policy p types Ingress
  ingress Allow proto ICMP icmp 11
  ingress Allow proto ICMP icmp 3/4
  ingress Allow proto ICMPv6 noticmp 1/4
pass ICMP 203.0.113.7 10.0.0.1 icmp 11/0
pass ICMP 203.0.113.7 10.0.0.1 icmp 11/1
pass ICMP 203.0.113.7 10.0.0.1 icmp 3/4
drop ICMP 203.0.113.7 10.0.0.1 icmp 3/1
drop ICMPv6 2001:db8::7 fd00::1 icmp 1/4
pass ICMPv6 2001:db8::7 fd00::1 icmp 1/3
pass ICMPv6 2001:db8::7 fd00::1 icmp 2/4
`},
		{name: "S66: ICMP is for IPv4, ICMPv6 for IPv6", text: `
policy p types Ingress
  ingress Allow proto ICMP
pass ICMP 203.0.113.7 10.0.0.1 icmp 8/0
drop ICMPv6 2001:db8::7 fd00::1 icmp 128/0
policy p types Ingress
  ingress Allow proto ICMPv6
drop ICMP 203.0.113.7 10.0.0.1 icmp 8/0
pass ICMPv6 2001:db8::7 fd00::1 icmp 128/0
`},
		{name: "S67: a rule for one IP version", text: `
policy p types Ingress
  ingress Allow ip 4
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 2001:db8::7 fd00::1 port 80
policy p types Ingress
  ingress Allow ip 6
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 2001:db8::7 fd00::1 port 80
`},
		{name: "S176: code points", text: `
policy p types Ingress
  ingress Allow proto TCP dscp 46,10
  ingress Allow proto UDP notdscp 0,46
pass TCP 203.0.113.7 10.0.0.1 port 80 dscp 46
pass TCP 2001:db8::7 fd00::1 port 80 dscp 10
drop TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80 dscp 46
pass UDP 203.0.113.7 10.0.0.1 port 80 dscp 47
`},
	}
}
