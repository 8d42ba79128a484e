// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// prover has the data of a proof. After newProver, only the counters change.
type prover struct {
	cfg  Config
	full *verdict.Evaluator
	// part has only the policies of the node.
	part    *verdict.Evaluator
	classes []addressClass
	index   map[netip.Addr]int // the classes of some addresses
	groups  []*group
	// hosts is a group with the policy of the host endpoints.
	hosts  *group
	locals []*policy.WorkloadEndpoint // the workload endpoints of the node
	tableSide
	hostSide
	counts
}

// tableSide has the data of a proof that comes from the table.
type tableSide struct {
	sim     *simulate.Simulator
	headers *headerNames
	// hooks has the hooks that have a chain.
	hooks [ruleset.Postrouting + 1]bool
	// unknownTests are tests of the table that addressTests cannot represent.
	unknownTests []string
}

// hostSide has the data of the node other than workloads.
type hostSide struct {
	hostKeys   []policy.Key                          // keys of the host endpoints
	interfaces []string                              // interfaces of the host
	own        [2][]netip.Addr                       // addresses of the node of each family, of one class each
	local      map[netip.Addr]bool                   // all addresses of the node
	facts      [2][2]map[ruleset.Field]ruleset.Value // results of routing lookups; see makeFacts
}

// counts are the numbers of a Report.
type counts struct{ packets, evaluations, different atomic.Int64 }

// group is a group of endpoints that policy cannot distinguish, as long as their addresses have
// equal classes.
type group struct {
	members []*policy.WorkloadEndpoint
	eval    *verdict.Evaluator
	keys    []policy.Key
	// class has, for each class of addresses, the class into which the policies of the group put
	// its addresses.
	class []int
	// in and out have the values that policies and the table mention for packets to and from the
	// members.
	in, out *mentions
}

// withNode returns the world with a Node resource for the node. A node without objects also has a
// table. But the evaluator returns no verdicts for a node that is not in the world.
func withNode(world verdict.World, name string) verdict.World {
	node := &policy.Node{Name: name}
	if world[node.Key()] != nil {
		return world
	}
	world = maps.Clone(world)
	world.Set(node)
	return world
}

func newProver(ctx context.Context, cfg Config) (*prover, error) {
	full, err := verdict.NewConfigured(withNode(cfg.World, cfg.Node), cfg.Verdict)
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	sim, err := simulate.New(simulate.Config{Table: filtering(cfg.Table)})
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	p := &prover{cfg: cfg, full: full, index: map[netip.Addr]int{}}
	p.sim, p.headers = sim, newHeaderNames()
	p.local = map[netip.Addr]bool{}
	for _, c := range cfg.Table.Chains {
		if c.Hook != nil && c.Hook.Type != ruleset.HookNAT {
			p.hooks[c.Hook.Point] = true
		}
	}
	locals, names := p.readWorld()
	p.locals = locals
	keys := slices.Clone(p.hostKeys)
	for _, e := range locals {
		keys = append(keys, e.Key())
	}
	p.part = full.Only(keys...)
	policies, err := p.part.AddressClasses(keys...)
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	tests := newAddressTests()
	tests.table(cfg.Table)
	p.unknownTests = tests.unknown
	if p.classes, err = tests.classes(ctx, policies, p.index); err != nil {
		return nil, err
	}
	p.reduceOwn()
	r := newReader(cfg.Table)
	if err := p.makeGroups(ctx, locals, names, r); err != nil {
		return nil, err
	}
	p.hosts = &group{keys: p.hostKeys, eval: p.part.Only(p.hostKeys...), in: newMentions()}
	if p.hosts.class, err = p.classify(p.hosts.eval, p.hostKeys); err != nil {
		return nil, err
	}
	for _, name := range p.interfaces {
		for _, other := range p.outside() {
			p.hosts.in.union(r.mentions(name, other), r.mentions(other, name))
		}
	}
	for _, key := range p.hostKeys {
		p.policyMentions(p.hosts.in, p.hosts.in, key, cfg.World[key].(*policy.HostEndpoint).Profiles, names)
	}
	addSettings(p.hosts.in, p.hosts.in, cfg.Verdict.Host.WithDefaults(), len(p.hostKeys) > 0)
	p.hosts.out = p.hosts.in
	return p, nil
}

// outside returns the interfaces of the host, and "" for its processes.
func (p *prover) outside() []string { return append(slices.Clone(p.interfaces), "") }

// filtering returns the table without the chains that translate.
func filtering(t *ruleset.Table) *ruleset.Table {
	some := *t
	some.Chains = slices.DeleteFunc(slices.Clone(t.Chains), func(c *ruleset.Chain) bool {
		return c.Hook != nil && c.Hook.Type == ruleset.HookNAT
	})
	return &some
}

// readWorld returns the workload endpoints of the node, and the meanings of names of ports and
// services. It also reads the host endpoints, the interfaces and the addresses of the node.
func (p *prover) readWorld() (locals []*policy.WorkloadEndpoint, names *named) {
	names = &named{
		headers: p.headers, ports: map[string]map[uint16]bool{}, services: map[policy.ServiceMatch]map[uint16]bool{},
	}
	interfaces := map[string]bool{p.cfg.HostInterface: true}
	rejected := p.full.Rejected()
	for _, key := range slices.SortedFunc(maps.Keys(p.cfg.World), policy.Key.Compare) {
		if rejected[key] != nil {
			continue
		}
		switch r := admitted(key, p.cfg.World[key]).(type) {
		case *policy.WorkloadEndpoint:
			names.add(r.Ports)
			if r.Node == p.cfg.Node {
				locals = append(locals, r)
			}
		case *policy.HostEndpoint:
			names.add(r.Ports)
			if r.Node == p.cfg.Node {
				p.hostKeys = append(p.hostKeys, key)
				p.addOwn(r.ExpectedIPs...)
				if r.InterfaceName != "" && r.InterfaceName != policy.AllInterfaces {
					interfaces[r.InterfaceName] = true
				}
			}
		case *policy.Node:
			if r.Name == p.cfg.Node {
				for _, a := range r.Addresses {
					p.addOwn(a.Addr())
				}
				p.addOwn(r.TunnelAddresses()...)
			}
		case *policy.ServiceBackends:
			at := policy.ServiceMatch{Name: r.Service, Namespace: r.Namespace}
			for _, port := range r.Ports {
				addTo(names.services, at, port.Port)
			}
		}
	}
	for name, addrs := range p.cfg.Verdict.Interfaces[p.cfg.Node] {
		p.addOwn(addrs...)
		interfaces[name] = true
	}
	for _, e := range locals {
		delete(interfaces, e.Interface)
		delete(interfaces, p.cfg.Bridges[e.Interface])
		for _, a := range e.Addresses {
			p.index[a] = -1
		}
	}
	delete(interfaces, "lo")
	maps.DeleteFunc(interfaces, func(name string, _ bool) bool {
		return strings.HasPrefix(name, p.cfg.InterfacePrefix)
	})
	p.interfaces = slices.Sorted(maps.Keys(interfaces))
	p.makeFacts()
	return locals, names
}

func (n *named) add(ports []policy.EndpointPort) {
	for _, port := range ports {
		addTo(n.ports, port.Name, port.Port)
	}
}

func addTo[K comparable](m map[K]map[uint16]bool, key K, port uint16) {
	if m[key] == nil {
		m[key] = map[uint16]bool{}
	}
	m[key][port] = true
}

func (p *prover) addOwn(addrs ...netip.Addr) {
	for _, a := range addrs {
		if a = a.Unmap(); a.IsValid() && !p.local[a] {
			p.local[a] = true
			p.index[a] = -1
		}
	}
}

// reduceOwn keeps one address of the node for each class.
func (p *prover) reduceOwn() {
	known := map[int]bool{}
	for _, a := range slices.SortedFunc(maps.Keys(p.local), netip.Addr.Compare) {
		if n := p.index[a]; !known[n] {
			known[n] = true
			p.own[family(a)] = append(p.own[family(a)], a)
		}
	}
}

func family(a netip.Addr) int {
	if a.Is6() {
		return 1
	}
	return 0
}

// makeFacts makes the results of routing lookups. They depend on whether source and destination are
// addresses of the node.
func (p *prover) makeFacts() {
	typ := func(local int) ruleset.Value {
		return ruleset.Uint32([]uint32{ruleset.FibTypeUnicast, ruleset.FibTypeLocal}[local])
	}
	for src := range 2 {
		for dst := range 2 {
			p.facts[src][dst] = map[ruleset.Field]ruleset.Value{
				ruleset.FibSaddrType: typ(src), ruleset.FibDaddrType: typ(dst), ruleset.FibSource: ruleset.Byte(1),
			}
		}
	}
}

// classify returns the class of each class of addresses for the policies of some endpoints. No
// class has addresses of both families.
func (p *prover) classify(e *verdict.Evaluator, keys []policy.Key) ([]int, error) {
	policies, err := e.AddressClasses(keys...)
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	known := map[string]int{}
	class := make([]int, len(p.classes))
	var key []byte
	for i, c := range p.classes {
		key = policies.AppendClass(append(key[:0], byte(family(c.addr))), c.addr)
		n, found := known[string(key)]
		if !found {
			n = len(known)
			known[string(key)] = n
		}
		class[i] = n
	}
	return class, nil
}

// makeGroups divides the endpoints into groups. The endpoints of a group have the same policies and
// profiles, and these policies cannot distinguish their addresses.
func (p *prover) makeGroups(ctx context.Context, locals []*policy.WorkloadEndpoint, names *named, r *reader) error {
	byPolicy, order := map[string][]*policy.WorkloadEndpoint{}, []string{}
	for _, e := range locals {
		id := fmt.Sprint(
			p.part.Policies(e.Key()), p.profileRules(e.Profiles), e.AdminState == policy.AdminDown,
			e.AllowSpoofedSourcePrefixes, p.cfg.Bridges[e.Interface],
		)
		if byPolicy[id] == nil {
			order = append(order, id)
		}
		byPolicy[id] = append(byPolicy[id], e)
	}
	for _, id := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		list := byPolicy[id]
		keys := append(slices.Clone(p.hostKeys), list[0].Key())
		eval := p.part.Only(keys...)
		class, err := p.classify(eval, keys)
		if err != nil {
			return err
		}
		byAddress := map[string]*group{}
		for _, e := range list {
			var own strings.Builder
			for _, a := range e.Addresses {
				fmt.Fprint(&own, a.BitLen(), " ", class[p.index[a]], ",")
			}
			g := byAddress[own.String()]
			if g == nil {
				g = &group{keys: keys, eval: eval, class: class, in: newMentions(), out: newMentions()}
				p.policyMentions(g.in, g.out, e.Key(), e.Profiles, names)
				addSettings(g.in, g.out, p.cfg.Verdict.Host.WithDefaults(), len(p.hostKeys) > 0)
				byAddress[own.String()] = g
				p.groups = append(p.groups, g)
			}
			g.members = append(g.members, e)
			for _, other := range p.outside() {
				name := p.seen(end{workload: e})
				g.out.union(r.mentions(name, other))
				g.in.union(r.mentions(other, name))
			}
		}
	}
	return nil
}

// profileRules returns texts of the rules of profiles. Texts are equal if the profiles decide
// alike.
func (p *prover) profileRules(names []string) (texts []string) {
	for _, name := range names {
		at := (&policy.Profile{Name: name}).Key()
		text := []byte("missing")
		if r, ok := admitted(at, p.cfg.World[at]).(*policy.Profile); ok {
			var err error
			if text, err = json.Marshal([2][]policy.Rule{r.Ingress, r.Egress}); err != nil {
				text = []byte(name) // then only equal names are equal
			}
		}
		texts = append(texts, string(text))
	}
	return texts
}

// policyMentions adds the values that the policies and profiles of an endpoint mention.
func (p *prover) policyMentions(in, out *mentions, key policy.Key, profiles []string, names *named) {
	add := func(ingress, egress []policy.Rule, namespace string) {
		in.policyRules(ingress, namespace, names)
		out.policyRules(egress, namespace, names)
	}
	for _, name := range p.part.Policies(key) {
		if r, ok := admitted(name, p.cfg.World[name]).(*policy.Policy); ok {
			add(r.Ingress, r.Egress, r.Namespace)
		}
	}
	for _, name := range profiles {
		at := (&policy.Profile{Name: name}).Key()
		if r, ok := admitted(at, p.cfg.World[at]).(*policy.Profile); ok {
			add(r.Ingress, r.Egress, "")
		}
	}
}

// addSettings adds the ports and protocols of the settings. The parameter in gets them for received
// packets, and the parameter out for sent ones. The parameter hosts is set if the node has host
// endpoints, so that failsafe ports count.
func addSettings(in, out *mentions, host policy.HostConfig, hosts bool) {
	if hosts {
		in.failsafes(host.FailsafeInbound)
		out.failsafes(host.FailsafeOutbound)
	}
	out.encapsulations(host.ForbiddenEncapsulations())
	out.encapsulations(host.NodeEncapsulations())
	in.encapsulations(host.NodeEncapsulations())
}

// encapsulations adds the protocol or port of each encapsulation.
func (m *mentions) encapsulations(list []policy.Encapsulation) {
	for _, e := range list {
		if e.Port == 0 {
			m.protocols.add(int(e.Protocol), int(e.Protocol))
		} else {
			m.dports.add(int(e.Port), int(e.Port))
		}
	}
}
