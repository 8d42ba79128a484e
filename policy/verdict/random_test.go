// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// gen makes random resources with few names and values, so that rules often match.
type gen struct{ *rand.Rand }

func newGen(seed uint64) gen { return gen{rand.New(rand.NewPCG(seed, 0))} }

func pick[T any](g gen, from ...T) T { return from[g.IntN(len(from))] }

func (g gen) chance(percent int) bool { return g.IntN(100) < percent }

func (g gen) addr() netip.Addr {
	if g.chance(25) {
		return netip.MustParseAddr("fd00::" + strconv.Itoa(1+g.IntN(3)))
	}
	return netip.AddrFrom4([4]byte{10, 0, byte(g.IntN(2)), byte(1 + g.IntN(3))})
}

func (g gen) nets() policy.Nets {
	var nets policy.Nets
	for range g.IntN(3) {
		a := g.addr()
		nets = append(nets, netip.PrefixFrom(a, pick(g, 0, a.BitLen()-8, a.BitLen())).Masked())
	}
	return nets
}

func (g gen) selector() string {
	return pick(g, "", "", "all()", "global()", "has(a)", "!has(a)", `a == "1"`, `a != "1"`, `b in {"1", "2"}`,
		`a == "1" && !(b == "2")`, `all() && has(a)`, `!global() || b == "1"`)
}

func (g gen) ports() []policy.Port {
	var ports []policy.Port
	for range g.IntN(3) {
		ports = append(ports,
			pick(g, policy.PortNumber(80), policy.PortRange(80, 82), policy.PortName("http"), policy.PortName("dns")))
	}
	return ports
}

func (g gen) labels(prefixes ...string) map[string]string {
	labels := map[string]string{}
	for _, prefix := range prefixes {
		for _, name := range []string{"a", "b"} {
			if g.chance(40) {
				labels[prefix+name] = pick(g, "1", "2")
			}
		}
	}
	return labels
}

func (g gen) entity(ports bool) policy.EntityRule {
	var e policy.EntityRule
	if g.chance(15) {
		e.Nets, e.NotNets = g.nets(), g.nets()
	}
	if g.chance(30) {
		e.Selector, e.NotSelector, e.NamespaceSelector = g.selector(), pick(g, "", g.selector()), pick(g, "",
			g.selector())
	}
	if g.chance(5) {
		e.ServiceAccounts = &policy.ServiceAccounts{Names: []string{"bot"}, Selector: g.selector()}
	}
	if ports && g.chance(25) {
		e.Ports, e.NotPorts = g.ports(), pick(g, nil, g.ports())
	}
	return e
}

func (g gen) rules() []policy.Rule {
	var rules []policy.Rule
	for range g.IntN(4) {
		r := policy.Rule{Action: pick(g, policy.Allow, policy.Allow, policy.Deny, policy.Pass, policy.Log)}
		r.IPVersion = pick(g, 0, 0, 0, 0, 0, 0, 4, 6)
		r.Protocol = pick(g, 0, 0, 0, policy.ProtocolTCP, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolICMP)
		if g.chance(10) {
			r.NotProtocol = policy.ProtocolUDP
		}
		if r.Protocol == policy.ProtocolICMP && g.chance(50) {
			r.NotICMP = icmp(8, 0)
		}
		if g.chance(15) {
			r.DSCP, r.NotDSCP = pick(g, nil, []policy.DSCP{46}, []policy.DSCP{0, 10}), pick(g, nil, []policy.DSCP{10})
		}
		r.Source, r.Destination = g.entity(r.Protocol.HasPorts()), g.entity(r.Protocol.HasPorts())
		rules = append(rules, r)
	}
	return rules
}

func (g gen) world() verdict.World {
	w := verdict.World{}
	for _, name := range []string{"p1", "p2"} {
		w.Set(&policy.Profile{
			Name: name, LabelsToApply: g.labels("", "pcns.", "pcsa."), Ingress: g.rules(), Egress: g.rules(),
		})
	}
	for _, name := range []string{"t1", "t2"} {
		if g.chance(70) {
			w.Set(tierOf(name, float64(g.IntN(3)), pick(g, policy.Deny, policy.Pass)))
		}
	}
	for i := range 10 {
		e := &policy.WorkloadEndpoint{
			Namespace: pick(g, "", "n", "m"), Name: "w" + strconv.Itoa(i), Node: pick(g, "node", "node", "other"),
			Interface: "cali" + strconv.Itoa(i), Addresses: []netip.Addr{g.addr()}, Labels: g.labels("", "pcsa."),
			Profiles: pick(g, nil, []string{"p1"}, []string{"p2", "p1"}, []string{"p2"}, []string{"p3", "p1"}),
		}
		e.Ports = pick(g, nil, []policy.EndpointPort{
			{Name: "http", Protocol: policy.ProtocolTCP, Port: 80},
			{Name: "dns", Protocol: policy.ProtocolUDP, Port: 81},
		})
		if g.chance(40) {
			e.Labels[policy.LabelServiceAccount] = pick(g, "bot", "cat")
		}
		w.Set(e)
	}
	for i := range 3 {
		w.Set(&policy.NetworkSet{
			Namespace: pick(g, "", "n"), Name: "s" + strconv.Itoa(i), Labels: g.labels(""), Nets: g.nets(),
		})
	}
	for i := range 1 + g.IntN(6) {
		p := &policy.Policy{
			Namespace: pick(g, "", "n"), Name: "p" + strconv.Itoa(i/2), Tier: pick(g, "", "t1", "t2", "t3"),
			Staged: g.chance(30), Selector: g.selector(),
			Types: pick(g, nil, []policy.Type{policy.Egress}, []policy.Type{policy.Ingress}), Ingress: g.rules(),
			Egress: g.rules(),
		}
		p.Order = pick(g, nil, new(float64))
		if p.Namespace == "" {
			p.NamespaceSelector = pick(g, "", g.selector())
			g.forHosts(p)
		}
		p.ServiceAccountSelector = pick(g, "", "", g.selector())
		w.Set(p)
	}
	g.hosts(w)
	return w
}

func (g gen) flow() verdict.Flow {
	f := verdict.Flow{
		Src:      g.addr(),
		Protocol: pick(g, policy.ProtocolTCP, policy.ProtocolTCP, policy.ProtocolUDP, policy.ProtocolICMP, 253),
		SrcPort:  pick[uint16](g, 80, 81), DstPort: pick[uint16](g, 80, 81, 82), ICMPType: 8,
		ICMPCode: uint8(g.IntN(2)), Header: policy.Header{DSCP: pick[policy.DSCP](g, 0, 0, 0, 10, 46)},
	}
	for f.Dst = g.addr(); f.Dst.Is4() != f.Src.Is4(); {
		f.Dst = g.addr()
	}
	if g.chance(60) {
		g.atNode(&f)
	}
	return f
}

// mapPolicies returns a world in which change replaces a clone of every policy.
func mapPolicies(w verdict.World, change func(*policy.Policy) *policy.Policy) verdict.World {
	changed := verdict.World{}
	for k, r := range w {
		if _, ok := r.(*policy.Policy); !ok {
			changed[k] = r
		}
	}
	for _, r := range w {
		if p, ok := r.(*policy.Policy); ok {
			if p = change(policy.Clone(p).(*policy.Policy)); p != nil {
				changed.Set(p)
			}
		}
	}
	return changed
}

// splitRules makes one rule for each net and port of a list, because the entries of a list are
// alternatives.
func splitRules(rules []policy.Rule) []policy.Rule {
	var out []policy.Rule
	for _, r := range rules {
		alternatives := []policy.Rule{r}
		each := func(n func(*policy.Rule) int, only func(*policy.Rule, int)) {
			var next []policy.Rule
			for _, a := range alternatives {
				if n(&a) == 0 {
					next = append(next, a)
				}
				for i := range n(&a) {
					one := a
					only(&one, i)
					next = append(next, one)
				}
			}
			alternatives = next
		}
		each(func(r *policy.Rule) int { return len(r.Source.Nets) }, func(r *policy.Rule, i int) {
			r.Source.Nets = r.Source.Nets[i : i+1]
		})
		each(func(r *policy.Rule) int { return len(r.Destination.Nets) }, func(r *policy.Rule, i int) {
			r.Destination.Nets = r.Destination.Nets[i : i+1]
		})
		each(func(r *policy.Rule) int { return len(r.Source.Ports) }, func(r *policy.Rule, i int) {
			r.Source.Ports = r.Source.Ports[i : i+1]
		})
		each(func(r *policy.Rule) int { return len(r.Destination.Ports) }, func(r *policy.Rule, i int) {
			r.Destination.Ports = r.Destination.Ports[i : i+1]
		})
		out = append(out, alternatives...)
	}
	return out
}

// checkSeed checks properties that every world has, for a random one.
func checkSeed(t *testing.T, seed uint64) {
	t.Helper()
	g := newGen(seed)
	w := g.world()
	cfg := g.config()
	configured := func(w verdict.World) *verdict.Evaluator {
		e, err := verdict.NewConfigured(w, cfg)
		require.NoError(t, err)
		require.Empty(t, e.Rejected(), "seed %d", seed)
		return e
	}
	e := configured(w)
	unstaged := configured(mapPolicies(w, func(p *policy.Policy) *policy.Policy {
		if p.Staged {
			return nil
		}
		return p
	}))
	promoted := configured(mapPolicies(w, func(p *policy.Policy) *policy.Policy {
		successor := p.Key()
		successor.Kind = policy.KindStagedPolicy
		if w[successor] != nil && !p.Staged {
			return nil
		}
		p.Staged = false
		return p
	}))
	cut := configured(mapPolicies(w, func(p *policy.Policy) *policy.Policy {
		p.Ingress, p.Egress = splitRules(p.Ingress), splitRules(p.Egress)
		return p
	}))
	for range 30 {
		f := g.flow()
		x := e.Explain(f)
		require.Equal(t, x.Result, e.Evaluate(f), "seed %d\n%s", seed, x)
		require.Equal(t, x, e.Explain(f), "seed %d", seed)
		require.Equal(t, x.Result, unstaged.Evaluate(f), "S20, seed %d\n%s", seed, x)
		require.Equal(t, x.Result, cut.Evaluate(f), "S42, S47, seed %d\n%s", seed, x)
		if f.Node != "" {
			checkStages(t, x, seed)
			// later stages depend on it
			if next := promoted.Explain(f); len(x.Stages) > 0 && len(next.Stages) > 0 {
				checkStaged(t, x.Stages[0], next.Stages[0], seed)
			}
			continue
		}
		next := promoted.Explain(f)
		checkStaged(t, x.Egress, next.Egress, seed)
		checkStaged(t, x.Ingress, next.Ingress, seed)
		checkDirection(t, x.Egress, seed)
		checkDirection(t, x.Ingress, seed)
	}
}

// checkStaged compares the staged results of an explanation with a world in which the staged
// policies are enforced.
func checkStaged(t *testing.T, d, promoted *verdict.Direction, seed uint64) {
	t.Helper()
	if d.Stage != promoted.Stage || d.Endpoint != promoted.Endpoint {
		return
	}
	outcome, by := d.IfStagedEnforced, d.IfStagedDecision
	if outcome == "" {
		require.Zero(t, by, "seed %d", seed)
		outcome, by = d.Outcome, d.Decision
	}
	require.Equal(t, promoted.Outcome, outcome, "seed %d", seed)
	if by.Policy.Kind == policy.KindStagedPolicy { // rules of the enforced policy have other IDs
		by.Policy.Kind = policy.KindPolicy
		by.RuleID = promoted.Decision.RuleID
	}
	require.Equal(t, promoted.Decision, by, "seed %d", seed)
}

// checkDirection checks that the steps of an explanation result in its decision.
func checkDirection(t *testing.T, d *verdict.Direction, seed uint64) {
	t.Helper()
	if d.Outcome == verdict.NotApplicable {
		require.Equal(t, verdict.ByNoEndpoint, d.Decision.By)
		return
	}
	var rules []verdict.RuleStep
	for i, tier := range d.Tiers {
		last := i == len(d.Tiers)-1 && d.Decision.Tier != ""
		require.Equal(t, last, tier.Action == policy.Allow || tier.Action == policy.Deny, "seed %d", seed)
		for _, p := range tier.Policies {
			if p.Policy == d.Decision.Policy {
				rules = p.Rules
			}
		}
	}
	for _, p := range d.Profiles {
		if p.Profile == d.Decision.Profile {
			rules = p.Rules
		}
	}
	if d.Decision.By == verdict.ByRule {
		last := rules[len(rules)-1]
		require.Nil(t, last.Mismatch)
		require.Equal(t, last.ID, d.Decision.RuleID)
		require.Equal(t, last.Action == policy.Allow, d.Outcome == verdict.Allow, "seed %d", seed)
	} else {
		require.Equal(t, verdict.Deny, d.Outcome)
	}
}

func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(300) {
		checkSeed(t, seed)
	}
}

func FuzzWorld(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeed(t, seed) })
}
