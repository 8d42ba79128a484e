// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// A node validates every update that it receives.
func BenchmarkValidate(b *testing.B) {
	endpoint := &policy.WorkloadEndpoint{
		Name: "remote-12345", Node: "remotehost", Interface: "way12345", Profiles: []string{"namespace-1"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
		Labels:    map[string]string{"calico/FizzBuzz": "true"},
	}
	for _, n := range []int{10, 11, 20, 30, 40} {
		endpoint.Labels[fmt.Sprintf("one-in-%d", n)] = "value-3"
	}
	pol := &policy.Policy{Name: "tag-pol-1", Selector: "has(M1)", Ingress: rulesFromFive()}
	for _, r := range []policy.Resource{endpoint, pol} {
		b.Run(string(r.Key().Kind), func(b *testing.B) {
			u := policy.Update{Key: r.Key(), Resource: r}
			require.NoError(b, u.Validate())
			b.ReportAllocs()
			for b.Loop() {
				_ = u.Validate()
			}
		})
	}
}

func BenchmarkRuleIDs(b *testing.B) {
	rules, owner := rulesFromFive(), policy.Key{Kind: policy.KindPolicy, Name: "tag-pol-1"}
	b.ReportAllocs()
	for b.Loop() {
		policy.RuleIDs(owner, policy.Ingress, rules)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(rules)), "ns/rule")
}

func rulesFromFive() []policy.Rule {
	rules := make([]policy.Rule, 5)
	for i := range rules {
		rules[i] = policy.Rule{Action: policy.Allow, Source: policy.EntityRule{Selector: fmt.Sprintf("has(M%d)", i)}}
	}
	return rules
}
