// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// Node is the name of the node whose policy the test computes. If Config.Interfaces is empty, about
// two thirds of the endpoints are on this node. The others are on another node.
const Node = "n1"

const otherNode = "n2"

// Generator makes random resources and packets.
type Generator struct {
	cfg Config
	rng *rand.Rand
}

// New returns a Generator for the configuration.
func New(cfg Config) *Generator {
	return &Generator{cfg: cfg.withDefaults(), rng: rand.New(rand.NewPCG(cfg.Seed, 0))}
}

// The lists of names are short, so that objects, rules and packets often match.
func namespaces() []string { return []string{"", "a", "b"} }

func tierNames() []string { return []string{"", "default", "kube-admin", "sec", "ops", "nowhere"} }

// ownTiers returns the tiers that have a resource. Policies can also be in tiers without one.
func ownTiers() []string { return []string{"sec", "ops", "nowhere"} }

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

// World returns the resources of a whole world. The world has most of the tiers and profiles that
// the package documentation names, or all of them with Config.Open. It also has the configured
// numbers of policies, network sets and endpoints. No two resources have the same key.
func (g *Generator) World() []policy.Resource {
	var out []policy.Resource
	for _, name := range g.some3of4(ownTiers()) {
		out = append(out, g.tier(name))
	}
	for _, name := range g.some3of4(profileNames()) {
		out = append(out, g.profile(name))
	}
	for i := range g.cfg.NetworkSets {
		out = append(out, g.networkSet(i))
	}
	for i := range g.cfg.Policies {
		out = append(out, g.policy(i))
	}
	for i := range g.cfg.Endpoints {
		out = append(out, g.endpoint(i))
	}
	for _, r := range out {
		g.maybeSpoil(r)
	}
	return out
}

// some3of4 returns each of the names with a probability of three quarters, or all of them with
// Config.Open.
func (g *Generator) some3of4(names []string) []string {
	if g.cfg.Open {
		return names
	}
	return slices.DeleteFunc(names, func(string) bool { return g.chance(4) })
}

// Update returns a change of one object: usually a valid resource, sometimes an invalid one, and
// sometimes a deletion. The deleted object may not exist.
func (g *Generator) Update() policy.Update {
	resource := g.resource()
	g.maybeSpoil(resource)
	u := policy.Update{Key: resource.Key(), Resource: resource}
	if g.chance(5) {
		u.Resource = nil
	}
	return u
}

func (g *Generator) resource() policy.Resource {
	switch n := g.rng.IntN(20); {
	case n < 8:
		return g.policy(-1)
	case n < 10:
		return g.tier(Pick(g, ownTiers()))
	case n < 12:
		return g.profile(Pick(g, profileNames()))
	case n < 14:
		return g.networkSet(-1)
	default:
		return g.endpoint(g.rng.IntN(g.cfg.Endpoints))
	}
}

// maybeSpoil makes one in twenty resources invalid.
func (g *Generator) maybeSpoil(resource policy.Resource) {
	if g.chance(20) && !g.cfg.OnlyValid {
		g.spoil(resource)
	}
}

// spoil makes a resource invalid without changing its key. In most policies it corrupts a rule.
func (g *Generator) spoil(resource policy.Resource) {
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

// policy makes the policy with a number; -1 means a random one.
func (g *Generator) policy(number int) *policy.Policy {
	p := &policy.Policy{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("pol-%d", g.number(number, g.cfg.Policies)),
		Tier:      Pick(g, tierNames()),
		Selector:  Pick(g, selectors()),
		Staged:    g.chance(6),
		Ingress:   g.rules(g.cfg.mostRules(3)),
		Egress:    g.rules(g.cfg.mostRules(2)),
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
	if g.cfg.Open && !g.chance(8) {
		p.Tier = Pick(g, append(ownTiers(), policy.KubeAdminTier))
		p.Namespace = Pick(g, []string{"", "", p.Namespace})
	}
	if g.chance(10) {
		p.PerformanceHints = []policy.PerformanceHint{policy.AssumeNeededOnEveryNode}
	}
	return p
}

func (g *Generator) tier(name string) *policy.Tier {
	t := &policy.Tier{Name: name}
	if g.chance(2) {
		order := float64(g.rng.IntN(3)) * 900
		t.Order = &order
	}
	if g.chance(2) {
		t.DefaultAction = Pick(g, []policy.Action{policy.Deny, policy.Pass})
	}
	if g.cfg.Open && !g.chance(6) {
		t.DefaultAction = policy.Pass
	}
	return t
}

func (g *Generator) profile(name string) *policy.Profile {
	p := &policy.Profile{
		Name:          name,
		LabelsToApply: map[string]string{},
		Ingress:       g.rules(g.cfg.mostRules(2)),
		Egress:        g.rules(g.cfg.mostRules(2)),
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

// networkSet makes the set with a number; -1 means a random one.
func (g *Generator) networkSet(number int) *policy.NetworkSet {
	return &policy.NetworkSet{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("set-%d", g.number(number, g.cfg.NetworkSets)),
		Labels:    g.labels(),
		Nets:      g.nets(4),
	}
}

// endpoint makes the endpoint with the number n.
func (g *Generator) endpoint(n int) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{
		Namespace: Pick(g, namespaces()),
		Name:      fmt.Sprintf("w%d", n),
		Node:      Pick(g, []string{Node, Node, otherNode}),
		Labels:    g.labels(),
	}
	w.Interface = fmt.Sprintf("wl%s%d", w.Namespace, n)
	for range g.rng.IntN(3) {
		addr := g.address()
		if !slices.Contains(w.Addresses, addr) {
			w.Addresses = append(w.Addresses, addr)
		}
	}
	if len(g.cfg.Interfaces) > 0 {
		g.assignInterface(w, n)
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

// assignInterface moves the endpoint with the number n to one of Config.Interfaces, or away from
// Node.
func (g *Generator) assignInterface(w *policy.WorkloadEndpoint, n int) {
	if n >= len(g.cfg.Interfaces) {
		w.Node = otherNode
		w.Addresses = slices.DeleteFunc(w.Addresses, g.ownedLocally)
		return
	}
	// The namespace depends on n only. If it were random, two endpoints with the same n could have
	// different keys and the same interface.
	w.Node, w.Interface, w.Namespace = Node, g.cfg.Interfaces[n], namespaces()[n%len(namespaces())]
	w.Addresses = localAddresses(n)
	if g.chance(6) {
		w.Addresses = w.Addresses[g.rng.IntN(2):][:1]
	}
}

// ownedLocally reports whether an endpoint with one of Config.Interfaces may have the address.
func (g *Generator) ownedLocally(addr netip.Addr) bool {
	for n := range g.cfg.Interfaces {
		if slices.Contains(localAddresses(n), addr) {
			return true
		}
	}
	return false
}

// localAddresses returns the addresses of the endpoint with the number n on one of
// Config.Interfaces.
func localAddresses(n int) []netip.Addr {
	high, low := byte((n+1)>>8), byte(n+1)
	return []netip.Addr{
		netip.AddrFrom4([4]byte{10, 0, high, low}), netip.AddrFrom16([16]byte{0: 0xfd, 14: high, 15: low}),
	}
}

func (g *Generator) labels() map[string]string {
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

// number returns n, or a random number below the limit if n is negative.
func (g *Generator) number(n, limit int) int {
	if n < 0 {
		return g.rng.IntN(limit)
	}
	return n
}

func (g *Generator) chance(oneIn int) bool { return g.rng.IntN(oneIn) == 0 }

// Pick returns a random item of the list, which must not be empty.
func Pick[T any](g *Generator, list []T) T { return list[g.rng.IntN(len(list))] }
