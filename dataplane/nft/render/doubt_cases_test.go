// SPDX-License-Identifier: Apache-2.0

package render_test

import "github.com/wayleave/wayleave/policy"

// doubtCases are rules in doubt in the policy of host endpoints. Those of workloads are in
// testdata/cases/doubt.txtar.
func doubtCases() []hostCase {
	allow80 := portsRule(policy.Allow, policy.ProtocolTCP, 80)
	badDeny := portsRule(policy.Deny, policy.ProtocolTCP, 81, 0)
	badAllow := portsRule(policy.Allow, policy.ProtocolTCP, 81, 0)
	eth0 := hostEndpoint("eth0", "eth0", "all")
	back := policy.Rule{
		Action: policy.Allow, Protocol: policy.ProtocolTCP,
		Source: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(80)}},
	}
	return []hostCase{
		{
			"S167 an untracked Deny in doubt denies the rest, except failsafe ports",
			policy.HostConfig{},
			[]policy.Resource{eth0, hostPolicy("p", untrackedRules(only(allow80, badDeny), only(back)))},
			flows(toHost(80), toHost(22), fromHost(82)), flows(toHost(81), toHost(82), intoPod(81)),
		},
		{
			"S167 an untracked Allow in doubt matches nothing",
			policy.HostConfig{},
			[]policy.Resource{
				hostEndpoint("eth0", "eth0"), hostPolicy("p", untrackedRules(only(allow80, badAllow), only(back))),
			},
			flows(toHost(80), toHost(22)), flows(toHost(81)),
		},
		{
			"S167 a pre-DNAT Deny in doubt denies the rest, except failsafe ports",
			policy.HostConfig{},
			[]policy.Resource{eth0, hostPolicy("p", beforeDNAT(allow80, badDeny))},
			flows(toHost(80), toHost(22), fromHost(81), nodePort(80, 8055)),
			flows(toHost(82), nodePort(30080, 80), intoPod(81)),
		},
		{
			"S167 a Pass in doubt denies forwarded packets",
			policy.HostConfig{},
			[]policy.Resource{eth0, hostPolicy("p", forwarded(
				only(allow80, policy.Rule{Action: policy.Pass, IPVersion: 5}), only(allow80),
			))},
			flows(through("eth0", "eth1"), intoPod(80)), flows(intoPod(81)),
		},
	}
}
