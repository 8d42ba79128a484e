// SPDX-License-Identifier: Apache-2.0

package conformance

// orderCases are about which policies apply, and about their order.
func orderCases() []judgeCase {
	return []judgeCase{
		{name: "S5: policies in order, those without an order last", text: `
policy a types Ingress order 2
  ingress Deny
policy b types Ingress order -1.5
  ingress Allow proto TCP
policy c types Ingress
  ingress Allow
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S9: tiers in their order", text: `
policy a tier app types Ingress
  ingress Deny
policy b tier sec types Ingress
  ingress Allow proto TCP
  ingress Pass
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
tier sec order 3
drop TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S12: each direction has its own rules", text: `
policy p types Ingress,Egress select app=="web"
  ingress Allow proto TCP
  egress Allow proto UDP
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
drop TCP 10.0.0.1 203.0.113.7 port 80
pass UDP 10.0.0.1 203.0.113.7 port 80
`},
		{name: "S13: policy for one direction leaves the other to profiles", text: `
policy p types Ingress select app=="web"
  ingress Deny
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 10.0.0.1 203.0.113.7 port 80
policy p types Egress select app=="web"
  egress Deny
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 10.0.0.1 203.0.113.7 port 80
`},
		{name: "S14: policy applies to the endpoints that it selects", text: `
policy p types Ingress select app=="web"
  ingress Deny
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 203.0.113.7 10.0.0.2 port 80
endpoint shop/w1 addrs 10.0.0.1 labels app=cli profiles open
pass TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S20: staged policies decide nothing", text: `
policy p types Ingress staged
  ingress Deny
pass TCP 203.0.113.7 10.0.0.1 port 80
policy q types Ingress order 5
  ingress Deny proto UDP
  ingress Allow
policy p types Ingress order 1 staged
  ingress Allow proto UDP
  ingress Deny proto TCP
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
	}
}

// actionCases are about actions and the ends of tiers.
func actionCases() []judgeCase {
	return []judgeCase{
		{name: "S21: the first rule that matches decides", text: `
policy a types Ingress order 1
  ingress Allow proto TCP dst.ports 80
  ingress Deny proto TCP dst.ports 80,81
policy b types Ingress order 2
  ingress Allow proto TCP dst.ports 81,82
  ingress Deny proto TCP dst.ports 80
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 81
pass TCP 203.0.113.7 10.0.0.1 port 82
drop TCP 203.0.113.7 10.0.0.1 port 83
`},
		{name: "S22: an Allow in an early tier is final", text: `
policy a tier sec types Ingress
  ingress Allow
policy b tier app types Ingress
  ingress Deny
pass TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S23: a Deny in an early tier is final", text: `
policy a tier sec types Ingress
  ingress Deny
policy b tier app types Ingress
  ingress Allow
drop TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S24: Pass skips the rest of the policy and of the tier", text: `
policy a tier sec types Ingress order 1
  ingress Pass proto TCP
  ingress Deny
policy b tier sec types Ingress order 2
  ingress Deny
policy c tier app types Ingress
  ingress Allow proto TCP dst.ports 80
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 81
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S25: Pass in the last tier leads to the profiles", text: `
policy a tier app types Ingress
  ingress Pass proto TCP
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
endpoint shop/w1 addrs 10.0.0.1,fd00::1 labels app=web
drop TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S26: the end of a tier denies, or passes", text: `
policy a tier sec types Ingress
  ingress Allow proto TCP dst.ports 80
policy b tier app types Ingress
  ingress Allow proto TCP
pass TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 203.0.113.7 10.0.0.1 port 81
tier sec order 1 default Pass
pass TCP 203.0.113.7 10.0.0.1 port 81
drop UDP 203.0.113.7 10.0.0.1 port 81
`},
		{name: "S27: a policy without rules makes its tier decide", text: `
policy a types Ingress select app=="web"
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 10.0.0.1 203.0.113.7 port 80
pass TCP 203.0.113.7 10.0.0.2 port 80
`},
		{name: "S28: Log decides nothing", text: `
policy p types Ingress
  ingress Log
  ingress Allow proto TCP
  ingress Log proto UDP
drop UDP 203.0.113.7 10.0.0.1 port 80
pass TCP 203.0.113.7 10.0.0.1 port 80
`},
	}
}

// endCases are about profiles, and about packets that nothing allows.
func endCases() []judgeCase {
	return []judgeCase{
		{name: "S31: profiles in the endpoint's order", text: `
profile tcp
  ingress Allow proto TCP
profile closed
  ingress Deny
endpoint shop/w1 addrs 10.0.0.1,fd00::1 labels app=web profiles tcp,closed,open
pass TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 203.0.113.7 10.0.0.1 port 80
pass UDP 10.0.0.1 203.0.113.7 port 80
endpoint shop/w1 addrs 10.0.0.1,fd00::1 labels app=web profiles closed,tcp
drop TCP 203.0.113.7 10.0.0.1 port 80
drop UDP 10.0.0.1 203.0.113.7 port 80
`},
		{name: "S32: Pass in a profile denies", text: `
profile passing
  ingress Pass
endpoint shop/w1 addrs 10.0.0.1,fd00::1 labels app=web profiles passing,open
drop TCP 203.0.113.7 10.0.0.1 port 80
pass TCP 10.0.0.1 203.0.113.7 port 80
`},
		{name: "S33: neither policy nor profile", text: `
endpoint shop/w1 addrs 10.0.0.1,fd00::1
drop TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 10.0.0.1 203.0.113.7 port 80
drop TCP 2001:db8::7 fd00::1 port 80
`},
		{name: "S34: a profile that does not exist denies", text: `
endpoint shop/w1 addrs 10.0.0.1,fd00::1 profiles missing,open
drop TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 10.0.0.1 203.0.113.7 port 80
`},
		{name: "S35: an endpoint that is down", text: `
endpoint shop/w1 addrs 10.0.0.1,fd00::1 profiles open down
drop TCP 203.0.113.7 10.0.0.1 port 80
drop TCP 10.0.0.1 203.0.113.7 port 80
endpoint shop/w1 addrs 10.0.0.1,fd00::1 profiles open
pass TCP 203.0.113.7 10.0.0.1 port 80
`},
		{name: "S142: egress at the source and ingress at the destination must both allow", text: `
policy in types Ingress select app=="web"
  ingress Allow proto TCP dst.ports 80,81
policy out types Egress select app=="cli"
  egress Allow proto TCP dst.ports 81,82
drop TCP 10.0.0.2 10.0.0.1 port 80
pass TCP 10.0.0.2 10.0.0.1 port 81
drop TCP 10.0.0.2 10.0.0.1 port 82
pass TCP 10.0.0.1 10.0.0.2 port 9
`},
		{name: "S167: a closed rule allows nothing", text: `
policy p types Ingress
  ingress Allow proto TCP dst.ports 80,0
  ingress Allow proto UDP
drop TCP 203.0.113.7 10.0.0.1 port 80
pass UDP 203.0.113.7 10.0.0.1 port 80
policy p types Ingress
  ingress Deny proto TCP dst.ports 80,0
  ingress Allow proto UDP
drop UDP 203.0.113.7 10.0.0.1 port 80
`},
	}
}
