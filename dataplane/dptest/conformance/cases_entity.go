// SPDX-License-Identifier: Apache-2.0

package conformance

// netCases are about prefixes.
func netCases() []judgeCase {
	return []judgeCase{
		{name: "S43: in the prefixes and in none of the negated ones", text: `
policy p types Ingress
  ingress Allow src.nets 203.0.113.0/24,2001:db8::/32 src.notnets 203.0.113.128/25
pass TCP 203.0.113.127 10.0.0.1 port 80
drop TCP 203.0.113.128 10.0.0.1 port 80
drop TCP 203.0.114.1 10.0.0.1 port 80
pass TCP 2001:db8::7 fd00::1 port 80
drop TCP 2001:db9::7 fd00::1 port 80
`},
		{name: "S43: source and destination are matched separately", text: `
policy p types Egress select app=="web"
  egress Allow dst.nets 203.0.113.0/24
  egress Deny src.nets 203.0.113.0/24
pass TCP 10.0.0.1 203.0.113.7 port 80
drop TCP 10.0.0.1 192.0.2.7 port 80
`},
		{name: "S68: prefixes match only their own family", text: `
policy p types Ingress
  ingress Allow src.nets 203.0.113.0/24
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 2001:db8::7 fd00::1 port 80
policy p types Ingress
  ingress Allow src.notnets 203.0.113.0/24
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 192.0.2.1 10.0.0.1 port 80
pass TCP 2001:db8::7 fd00::1 port 80
`},
		{name: "S69: a negated catch-all", text: `
policy p types Ingress
  ingress Allow src.notnets 0.0.0.0/0
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 2001:db8::7 fd00::1 port 80
`},
		{name: "S70: 0.0.0.0/0 is any IPv4 address", text: `
policy p types Ingress
  ingress Allow src.nets 0.0.0.0/0
pass TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 10.0.0.2 10.0.0.1 port 80
drop TCP 2001:db8::7 fd00::1 port 80
`},
	}
}

// setCases are about selectors, and about sets that change.
func setCases() []judgeCase {
	return []judgeCase{
		{name: "S44: in every set, and in no negated one", text: `
policy p types Ingress
  ingress Allow src role=="fe" src.not env=="prod"
pass TCP 10.0.0.2 10.0.0.1 port 80
drop TCP 10.0.1.1 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S72: a negated selector matches addresses without an object", text: `
policy p types Ingress
  ingress Allow src.not role=="bad"
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 203.0.113.16 10.0.0.1 port 80
pass TCP 10.0.0.2 10.0.0.1 port 80
drop TCP 2001:db8::7 fd00::1 port 80
pass TCP 2001:db8:0:1::7 fd00::1 port 80
`},
		{name: "S77: a service as the destination", text: `
service shop/web-1 of web addrs 10.0.1.1,fd00:1::1 serves TCP:81
policy shop/p types Egress
  egress Allow dst.svc web
pass TCP 10.0.0.1 10.0.1.1 port 81
pass TCP fd00::1 fd00:1::1 port 81
drop TCP 10.0.0.1 10.0.1.1 port 80
drop UDP 10.0.0.1 10.0.1.1 port 81
drop TCP 10.0.0.1 203.0.113.7 port 81
`},
		{name: "S79: a set has the addresses of both families", text: `
policy p types Ingress select app=="web"
  ingress Allow src role=="fe"
pass TCP 10.0.0.2 10.0.0.1 port 80
pass TCP fd00::2 fd00::1 port 80
pass TCP 10.0.1.1 10.0.0.1 port 80
pass TCP fd00:1::1 fd00::1 port 80
drop TCP fd00:1::2 fd00::1 port 80
`},
		{name: "S80: an address of two endpoints stays until both are gone", text: `
endpoint shop/twin node n2 addrs 10.0.1.1 labels role=fe
policy p types Ingress
  ingress Allow src role=="fe"
pass TCP 10.0.1.1 10.0.0.1 port 80
delete WorkloadEndpoint/shop/twin
pass TCP 10.0.1.1 10.0.0.1 port 80
delete WorkloadEndpoint/shop/far
drop TCP 10.0.1.1 10.0.0.1 port 80
`},
		{name: "S81: an address replaces another", text: `
policy p types Ingress
  ingress Allow src role=="fe"
pass TCP 10.0.1.1 10.0.0.1 port 80
drop TCP 10.0.1.2 10.0.0.1 port 80
endpoint shop/far node n2 addrs 10.0.1.2 labels role=fe
drop TCP 10.0.1.1 10.0.0.1 port 80
pass TCP 10.0.1.2 10.0.0.1 port 80
drop TCP fd00:1::1 fd00::1 port 80
`},
		{name: "S89: a member that a broader one covers is added and removed", text: `
netset wide labels role=bad nets 203.0.113.0/24
policy p types Ingress
  ingress Allow src role=="bad"
pass TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 203.0.113.200 10.0.0.1 port 80
delete NetworkSet/bad
pass TCP 203.0.113.7 10.0.0.1 port 80
netset bad labels role=bad nets 203.0.113.0/28
delete NetworkSet/wide
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.200 10.0.0.1 port 80
`},
		{name: "S92: an empty set matches nothing, and negated everything", text: `
policy p types Ingress
  ingress Deny src nobody=="here"
  ingress Allow proto TCP src.not nobody=="here"
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
	}
}
