// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// recorder records the output of nodes, one line each.
type recorder struct{ lines []string }

func (s *recorder) add(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *recorder) take() []string {
	lines := s.lines
	s.lines = nil
	return lines
}

func (s *recorder) PolicyActive(p *policy.Policy) { s.add("active %s", p.Key()) }
func (s *recorder) PolicyInactive(k policy.Key)   { s.add("inactive %s", k) }
func (s *recorder) ProfileActive(p *policy.Profile) {
	s.add("active %s, %d rules", p.Key(), len(p.Ingress))
}
func (s *recorder) ProfileInactive(name string) { s.add("inactive %s", name) }
func (s *recorder) MatchStarted(x *calcgraph.Selection, k policy.Key) {
	s.add("%s + %s", x.Selector(), k)
}

func (s *recorder) MatchStopped(x *calcgraph.Selection, k policy.Key) {
	s.add("%s - %s", x.Selector(), k)
}

func (s *recorder) SelectionChanged(x *calcgraph.Selection) {
	s.add("%s: %d", x.Selector(), len(x.Policies()))
}

func (s *recorder) IPSetActive(spec *calcgraph.IPSetSpec) { s.add("set %s", spec.Type) }
func (s *recorder) IPSetInactive(dataplane.IPSetID)       { s.add("set gone") }
func (s *recorder) RulesRemove(k policy.Key)              { s.add("%s gone", k) }

func (s *recorder) EndpointUpdate(k policy.Key, e *dataplane.Endpoint) { s.add("%s %s", k, e) }

func (s *recorder) EndpointRemove(k policy.Key) { s.add("%s gone", k) }

func (s *recorder) HostEndpointRemove(k policy.Key) { s.add("%s gone", k) }

func (s *recorder) HostEndpointUpdate(k policy.Key, h *dataplane.HostEndpoint) { s.add("%s %s", k, h) }

func (s *recorder) RulesUpdate(k policy.Key, r calcgraph.Rules) {
	p := dataplane.Policy{Tier: r.Tier, Ingress: r.Ingress, Egress: r.Egress}
	s.add("%s %s", k, &p)
}

func newActiveRules(t *testing.T) (*calcgraph.ActiveRules, *recorder) {
	out := &recorder{}
	active, err := calcgraph.NewActiveRules(calcgraph.ActiveRulesConfig{Policies: out, Profiles: out, Matches: out})
	require.NoError(t, err)
	return active, out
}

// A policy is active before it matches, and inactive after its matches have stopped. Policies with
// the same selector do so together.
func TestActiveRulesOrder(t *testing.T) {
	active, out := newActiveRules(t)
	update := func(p policy.Policy) { require.NoError(t, active.UpdatePolicy(&p)) }
	update(policy.Policy{Name: "a", Selector: "has(x)"})
	update(policy.Policy{Name: "b", Selector: "(has(x))"})
	update(policy.Policy{Namespace: "n", Name: "c", Selector: "has(x)"})
	require.Empty(t, out.take())
	w := &policy.WorkloadEndpoint{Namespace: "n", Name: "w", Labels: map[string]string{"x": ""}}
	active.UpdateEndpoint(w)
	require.Equal(t, []string{
		"active Policy/n/c", `(projectcalico.org/namespace == "n" && has(x)) + WorkloadEndpoint/n/w`,
		"active Policy/a", "active Policy/b", "has(x) + WorkloadEndpoint/n/w",
	}, out.take())
	active.DeletePolicy((&policy.Policy{Name: "a"}).Key())
	require.Equal(t, []string{"has(x): 1", "inactive Policy/a"}, out.take())
	update(policy.Policy{Name: "b", Selector: "has(x)", Ingress: []policy.Rule{{Action: policy.Allow}}})
	require.Equal(t, []string{"active Policy/b"}, out.take(), "nothing but the rules changes")
	update(policy.Policy{Name: "b", Selector: "has(y)"})
	require.Equal(t, []string{"has(x): 0", "has(x) - WorkloadEndpoint/n/w", "inactive Policy/b"}, out.take())
	active.DeleteEndpoint(w.Key())
	require.Equal(t, []string{
		`(projectcalico.org/namespace == "n" && has(x)) - WorkloadEndpoint/n/w`, "inactive Policy/n/c",
	}, out.take())
}

// A policy whose selector does not parse is absent, also if it replaces one whose selector does.
func TestInvalidSelectorsAreRefused(t *testing.T) {
	active, out := newActiveRules(t)
	active.UpdateEndpoint(&policy.WorkloadEndpoint{Namespace: "n", Name: "w", Profiles: []string{"p", "p"}})
	require.Equal(t, []string{"active Profile/p, 1 rules"}, out.take())
	require.NoError(t, active.UpdatePolicy(&policy.Policy{Namespace: "n", Name: "a"}))
	require.Len(t, out.take(), 2)
	require.ErrorContains(t, active.UpdatePolicy(&policy.Policy{Namespace: "n", Name: "a", Selector: "x =="}),
		"selector: ")
	require.Contains(t, out.take(), "inactive Policy/n/a")
	for _, p := range []*policy.Policy{
		{Name: "b", NamespaceSelector: "x =="},
		{Name: "b", ServiceAccountSelector: "x =="},
		{Namespace: "n", Name: "b", Selector: "("},
	} {
		require.Error(t, active.UpdatePolicy(p))
	}
	// There is no output for a namespace without a local endpoint, now or later.
	require.NoError(t, active.UpdatePolicy(&policy.Policy{Namespace: "m", Name: "c", Selector: "x =="}))
	active.UpdateEndpoint(&policy.WorkloadEndpoint{Namespace: "m", Name: "w"})
	require.Empty(t, out.take())
}

// Without validation, an Allow in doubt matches nothing, and a Deny in doubt denies.
func TestRuleScannerInDoubt(t *testing.T) {
	out := &recorder{}
	scanner := calcgraph.NewRuleScanner(calcgraph.RuleScannerConfig{Sets: out, Rules: out})
	bad := policy.EntityRule{Selector: "x =="}
	nowhere := policy.EntityRule{Services: &policy.ServiceMatch{Name: "s"}}
	scanner.PolicyActive(&policy.Policy{Name: "p", PreDNAT: true, Ingress: []policy.Rule{
		{Action: policy.Allow, Source: bad},
		{Action: policy.Log, Destination: bad},
		{Action: policy.Deny, Destination: bad},
		{Action: policy.Pass, Source: bad},
		{Action: policy.Allow, Source: nowhere},
		{Action: policy.Allow, Protocol: policy.ProtocolTCP},
	}, Egress: []policy.Rule{{Action: policy.Allow}}})
	require.Equal(t, []string{"Policy/p tier default: ingress deny; ingress deny; ingress allow tcp"}, out.take())
	for _, e := range []policy.EntityRule{
		{NotSelector: "("}, {NamespaceSelector: "("}, {ServiceAccounts: &policy.ServiceAccounts{Selector: "("}},
	} {
		scanner.ProfileActive(&policy.Profile{Name: "q", Ingress: []policy.Rule{{Action: policy.Allow, Source: e}}})
		require.Equal(t, []string{"Profile/q tier : no rules"}, out.take())
	}
	scanner.ProfileInactive("q")
	scanner.ProfileInactive("q")
	require.Equal(t, []string{"Profile/q gone"}, out.take())
}

// Only endpoints with a policy of the tier are updated.
func TestPolicyResolverTiers(t *testing.T) {
	out := &recorder{}
	resolver := calcgraph.NewPolicyResolver(out)
	in, other := calcgraph.NewSelection(selector.All()), calcgraph.NewSelection(selector.Has("x"))
	in.Replace(nil, &policy.Policy{Name: "a", Tier: "sec"})
	other.Replace(nil, &policy.Policy{Name: "b", Egress: []policy.Rule{{Action: policy.Allow}}})
	for _, e := range []struct {
		name string
		s    *calcgraph.Selection
	}{{"one", in}, {"two", other}, {"three", in}} {
		w := &policy.WorkloadEndpoint{Name: e.name, Interface: "wl"}
		resolver.UpdateEndpoint(w)
		resolver.MatchStarted(e.s, w.Key())
	}
	resolver.Flush()
	require.Len(t, out.take(), 3)
	resolver.UpdateTier(&policy.Tier{Name: "sec", DefaultAction: policy.Pass})
	resolver.UpdateTier(&policy.Tier{Name: "empty"})
	resolver.DeleteTier("empty")
	resolver.DeleteTier("never")
	resolver.Flush()
	require.Equal(t, []string{
		"WorkloadEndpoint/one wl [] ingress sec:pass[Policy/a] egress - profiles []",
		"WorkloadEndpoint/three wl [] ingress sec:pass[Policy/a] egress - profiles []",
	}, out.take())
	resolver.Flush()
	require.Empty(t, out.take())
	resolver.DeleteEndpoint((&policy.WorkloadEndpoint{Name: "one"}).Key())
	resolver.DeleteEndpoint((&policy.WorkloadEndpoint{Name: "never"}).Key())
	resolver.MatchStopped(in, (&policy.WorkloadEndpoint{Name: "one"}).Key())
	resolver.MatchStopped(in, (&policy.WorkloadEndpoint{Name: "never"}).Key())
	resolver.Flush()
	require.Equal(t, []string{"WorkloadEndpoint/one gone"}, out.take())
}

// A selection sorts its policies, in whatever order they are added, and reports changes that can
// affect endpoints.
func TestSelection(t *testing.T) {
	s := calcgraph.NewSelection(selector.All())
	order := 1.0
	policies := []*policy.Policy{
		{Name: "b"},
		{Name: "a"},
		{Name: "z", Order: &order},
		{Name: "a", Tier: "aaa"},
		{Name: "ab"},
		{Namespace: "n", Name: "a"},
	}
	for _, p := range policies {
		require.True(t, s.Replace(nil, p))
	}
	names := func() []string {
		var out []string
		for _, p := range s.Policies() {
			out = append(out, p.TierName()+":"+p.Namespace+"/"+p.Name)
		}
		return out
	}
	require.Equal(t, []string{"aaa:/a", "default:/z", "default:/a", "default:n/a", "default:/ab", "default:/b"},
		names())
	rules := &policy.Policy{Name: "b", Ingress: []policy.Rule{{Action: policy.Allow}}}
	require.False(t, s.Replace(policies[0], rules))
	for _, p := range []*policy.Policy{
		{Name: "b", Types: []policy.Type{policy.Egress}},
		{Name: "b", ApplyOnForward: true},
		{Name: "b", DoNotTrack: true},
		{Name: "b", PreDNAT: true},
		{Name: "b", Order: &order},
		{Name: "b", Tier: "x"},
	} {
		require.True(t, s.Replace(rules, p))
		require.True(t, s.Replace(p, rules))
	}
	require.True(t, s.Replace(rules, nil))
	require.Len(t, s.Policies(), 5)
}

// Backends of services without a graph (S77, S78).
func TestIPSetsServices(t *testing.T) {
	out := &memberRecorder{t: t, sets: map[dataplane.IPSetID]map[dataplane.Member]bool{}}
	sets, err := calcgraph.NewIPSets(out)
	require.NoError(t, err)
	spec := calcgraph.ServiceSet("n", "s", dataplane.IPSetPorts)
	require.NotEqual(t, spec.ID, calcgraph.ServiceSet("n", "s", dataplane.IPSetNets).ID)
	addr := netip.MustParseAddr("10.0.0.1")
	part := &policy.ServiceBackends{
		Namespace: "n", Name: "1", Service: "s", Addresses: []netip.Addr{addr, addr},
		Ports: []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: 80}, {Protocol: policy.ProtocolTCP, Port: 80}},
	}
	sets.UpdateService(part)
	sets.IPSetActive(spec)
	want := []dataplane.Member{{Prefix: netip.PrefixFrom(addr, 32), Protocol: policy.ProtocolTCP, Port: 80}}
	require.Equal(t, want, sets.Members(spec.ID))
	sets.Delete(part.Key())
	sets.Delete(part.Key())
	require.Empty(t, sets.Members(spec.ID))
	sets.UpdateService(part)
	sets.IPSetInactive(spec.ID)
	sets.IPSetInactive(spec.ID)
	require.Empty(t, out.sets)
	require.Empty(t, sets.Members(spec.ID))
}
