// SPDX-License-Identifier: Apache-2.0

package worldgen

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Node is the name of the node that about half of the endpoints are on.
const Node = "n1"

// Gen makes random updates. It is not safe for concurrent use.
type Gen struct {
	rng *rand.Rand
}

// New returns a generator; equal seeds give equal sequences.
func New(seed uint64) *Gen { return &Gen{rng: rand.New(rand.NewPCG(seed, 0))} }

// The alphabets are small, so that things meet.
func namespaces() []string { return []string{"", "a", "b"} }

func tierNames() []string { return []string{"", "default", "kube-admin", "sec", "ops", "nowhere"} }

func profileNames() []string { return []string{"p1", "p2", "kns.a", "kns.b"} }

func portNames() []string { return []string{"http", "dns"} }

func selectors() []string {
	return []string{
		"all()", `app == "web"`, `app != "web"`, `has(role)`, `!has(role)`, `role in {"fe", "be"}`,
		`role not in {"fe"}`, `app == "web" && role == "fe"`, `app == "db" || role == "be"`, `global()`,
		`app contains "e"`, `role starts with "f"`, `projectcalico.org/namespace == "a"`, `!(app == "web" || has(env))`,
		`app in {}`, `nobody == "here"`,
	}
}

func namespaceSelectors() []string {
	return []string{"all()", "global()", `env == "prod"`, `env != "prod"`, `!has(env)`, `all() && env == "dev"`}
}

// Update returns the new state of some object: usually a valid resource, sometimes an
// invalid one, sometimes a deletion, also of objects that never were.
func (g *Gen) Update() policy.Update {
	resource := g.resource()
	if g.chance(20) {
		g.spoil(resource)
	}
	u := policy.Update{Key: resource.Key(), Resource: resource}
	if g.chance(5) {
		u.Resource = nil
	}
	return u
}

func (g *Gen) resource() policy.Resource {
	switch n := g.rng.IntN(20); {
	case n < 8:
		return g.policy()
	case n < 10:
		return g.tier()
	case n < 12:
		return g.profile()
	case n < 14:
		return g.networkSet()
	default:
		return g.endpoint()
	}
}

// spoil makes a resource invalid without changing its key. In most policies it corrupts a rule.
func (g *Gen) spoil(resource policy.Resource) {
	switch r := resource.(type) {
	case *policy.Policy:
		switch g.rng.IntN(4) {
		case 0:
			r.Selector = "a =="
		case 1:
			g.corruptOne(r.Egress)
		default:
			r.Ingress = append(r.Ingress, policy.Rule{
				Action: Pick(g, []policy.Action{policy.Allow, policy.Deny, policy.Pass, policy.Log}),
			})
			g.corruptOne(r.Ingress)
		}
	case *policy.Tier:
		r.DefaultAction = policy.Log
	case *policy.Profile:
		r.Egress = append(r.Egress, policy.Rule{Action: policy.Allow, Source: policy.EntityRule{Selector: "a =="}})
	case *policy.NetworkSet:
		r.Nets = append(r.Nets, netip.Prefix{})
	case *policy.WorkloadEndpoint:
		r.Interface = ""
	}
}

func (g *Gen) policy() *policy.Policy {
	p := &policy.Policy{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("pol-%d", g.rng.IntN(8)),
		Tier:      Pick(g, tierNames()),
		Selector:  Pick(g, selectors()),
		Staged:    g.chance(6),
		Ingress:   g.rules(3),
		Egress:    g.rules(2),
	}
	if g.chance(2) {
		order := float64(g.rng.IntN(7)) - 1.5
		p.Order = &order
	}
	if p.Namespace == "" && g.chance(3) {
		p.NamespaceSelector = Pick(g, namespaceSelectors())
	}
	if g.chance(8) {
		p.ServiceAccountSelector = Pick(g, []string{`team == "x"`, "all()", "!has(team)"})
	}
	switch g.rng.IntN(5) {
	case 0:
		p.Types = []policy.Type{policy.Ingress}
	case 1:
		p.Types = []policy.Type{policy.Egress}
	case 2:
		p.Types = []policy.Type{policy.Egress, policy.Ingress}
	}
	if g.chance(10) {
		p.PerformanceHints = []policy.PerformanceHint{policy.AssumeNeededOnEveryNode}
	}
	return p
}

func (g *Gen) tier() *policy.Tier {
	t := &policy.Tier{Name: Pick(g, []string{"sec", "ops", "nowhere"})}
	if g.chance(2) {
		order := float64(g.rng.IntN(3)) * 900
		t.Order = &order
	}
	if g.chance(2) {
		t.DefaultAction = Pick(g, []policy.Action{policy.Deny, policy.Pass})
	}
	return t
}

func (g *Gen) profile() *policy.Profile {
	p := &policy.Profile{
		Name:          Pick(g, profileNames()),
		LabelsToApply: map[string]string{},
		Ingress:       g.rules(2),
		Egress:        g.rules(2),
	}
	if g.chance(2) {
		p.LabelsToApply["pcns.env"] = Pick(g, []string{"prod", "dev"})
	}
	if g.chance(3) {
		p.LabelsToApply["role"] = Pick(g, []string{"fe", "be"})
	}
	if g.chance(4) {
		p.LabelsToApply["pcsa.team"] = Pick(g, []string{"x", "y"})
	}
	return p
}

func (g *Gen) networkSet() *policy.NetworkSet {
	return &policy.NetworkSet{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("set-%d", g.rng.IntN(4)),
		Labels:    g.labels(),
		Nets:      g.nets(4),
	}
}

func (g *Gen) endpoint() *policy.WorkloadEndpoint {
	n := g.rng.IntN(8)
	w := &policy.WorkloadEndpoint{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("w%d", n),
		Node:      Pick(g, []string{Node, Node, "n2"}),
		Labels:    g.labels(),
	}
	w.Interface = fmt.Sprintf("wl%s%d", w.Namespace, n)
	for range g.rng.IntN(3) {
		addr := g.address()
		if !slices.Contains(w.Addresses, addr) {
			w.Addresses = append(w.Addresses, addr)
		}
	}
	for range g.rng.IntN(3) {
		w.Ports = append(w.Ports, policy.EndpointPort{
			Name: Pick(g, portNames()), Protocol: Pick(g, withPorts()), Port: Pick(g, ports()),
		})
	}
	for _, name := range profileNames() {
		if g.chance(3) {
			w.Profiles = append(w.Profiles, name)
		}
	}
	if g.chance(12) {
		w.AdminState = policy.AdminDown
	}
	return w
}

func (g *Gen) labels() map[string]string {
	labels := map[string]string{}
	if g.chance(2) {
		labels["app"] = Pick(g, []string{"web", "db"})
	}
	if g.chance(2) {
		labels["role"] = Pick(g, []string{"fe", "be", "other"})
	}
	if g.chance(4) {
		labels["projectcalico.org/serviceaccount"] = Pick(g, []string{"robot", "human"})
	}
	return labels
}

func (g *Gen) chance(oneIn int) bool { return g.rng.IntN(oneIn) == 0 }

// Pick returns one of the values.
func Pick[T any](g *Gen, list []T) T { return list[g.rng.IntN(len(list))] }
