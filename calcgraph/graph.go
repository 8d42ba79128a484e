// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Config configures a Graph.
type Config struct {
	// Node is the name of the node that events are computed for: the endpoints whose Node
	// field equals it are local. Required.
	Node string
	// Names passes namespaces, service accounts and services on, for dataplanes that use
	// of them, at the cost of memory for each. Off by default. Nodes and pools are always passed
	// on.
	Names bool
	// Hooks report events to the caller. Optional.
	Hooks Hooks
}

// Hooks are optional functions that the graph calls from Update, on the caller's goroutine.
type Hooks struct {
	// Rejected is called for a resource that is treated as absent because it is invalid, each time
	// it comes.
	Rejected func(key policy.Key, err error)
	// Doubt is called when the doubts of a policy in force change: the parts of its rules that are
	// not understood. It is called with nil when the policy has no doubts any more, or is absent.
	Doubt func(key policy.Key, doubt *policy.DoubtError)
}

func (c Config) validate() error {
	if c.Node == "" {
		return errors.New("calcgraph: Config.Node: required")
	}
	return nil
}

// Graph computes the events for one node from updates of resources. It can be driven by hand, with
// Update, InSync and Flush, or by a Runner.
//
// A Graph keeps of the resources only what it needs: policies, profiles, tiers, pools, blocks,
// nodes, the parts of services and the endpoints of its own node as they are, of all others the
// labels and addresses in a compact form.
//
// A Graph is not safe for concurrent use.
type Graph struct {
	cfg      Config
	inSync   bool
	rejected uint64
	doubts   map[policy.Key]*policy.DoubtError

	active   *ActiveRules
	scanner  *RuleScanner
	sets     *IPSets
	resolver *PolicyResolver
	tunnels  *TunnelResolver
	routes   *RouteResolver
	passOn   PassOn
	seq      *Sequencer
}

// New returns an empty graph, its nodes wired as the picture in the package's documentation shows.
// It fails if the configuration is invalid.
func New(cfg Config) (*Graph, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seq := NewSequencer() // where everything ends
	sets, err := NewIPSets(seq)
	if err != nil {
		return nil, err
	}
	// What is active: its matches go to the resolver, its policies and profiles to the scanner,
	// whose sets go to sets.
	resolver := NewPolicyResolver(seq)
	scanner := NewRuleScanner(RuleScannerConfig{Sets: sets, Rules: seq})
	active, err := NewActiveRules(ActiveRulesConfig{Policies: scanner, Profiles: scanner, Matches: resolver})
	if err != nil {
		return nil, err
	}
	// Where addresses are: the routes receive the tunnels that they lead through.
	routes, err := NewRouteResolver(RouteResolverConfig{Node: cfg.Node, Routes: seq})
	if err != nil {
		return nil, err
	}
	tunnels, err := NewTunnelResolver(TunnelResolverConfig{Node: cfg.Node, Tunnels: bothTunnels{routes, seq}})
	if err != nil {
		return nil, err
	}
	passOn := PassOn{Nodes: seq, Pools: seq}
	if cfg.Names {
		passOn.Services, passOn.Namespaces, passOn.ServiceAccounts = seq, seq, seq
	}
	return &Graph{
		cfg: cfg, doubts: map[policy.Key]*policy.DoubtError{}, active: active, scanner: scanner, sets: sets,
		resolver: resolver, tunnels: tunnels, routes: routes, passOn: passOn, seq: seq,
	}, nil
}

// Update takes the latest state of one object. The resource must not be changed afterwards. A
// resource that is invalid, or whose key is not the update's, counts as absent under the update's
// key. Rules of a policy that are not understood fail closed, see policy.Update.Admit.
func (g *Graph) Update(u policy.Update) {
	resource, err := u.Admit()
	var doubt *policy.DoubtError
	if err != nil && !errors.As(err, &doubt) {
		g.reject(u.Key, err)
	}
	if resource == nil {
		g.remove(u.Key)
	} else if err := g.set(resource); err != nil {
		g.reject(u.Key, err)
		doubt = nil
	}
	g.noteDoubt(u.Key, doubt)
}

// InSync marks the end of the initial state: Update has received everything that the datastore had. Endpoints,
// tunnels and routes are emitted from the next flush on. Further calls do nothing.
func (g *Graph) InSync() {
	g.inSync = true
	g.seq.InSync()
}

// Flush returns what has changed since the last flush; the batch is empty if nothing has.
func (g *Graph) Flush() dataplane.Batch {
	if g.inSync {
		g.resolver.Flush()
		g.tunnels.Flush()
		g.routes.Flush() // after the tunnels, which it receives
	}
	return g.seq.Flush()
}

func (g *Graph) reject(key policy.Key, err error) {
	g.rejected++
	if g.cfg.Hooks.Rejected != nil {
		g.cfg.Hooks.Rejected(key, err)
	}
}

// noteDoubt reports the doubts of a policy, nil for none, if they changed since the last report.
func (g *Graph) noteDoubt(key policy.Key, doubt *policy.DoubtError) {
	old := g.doubts[key]
	if doubt == nil {
		delete(g.doubts, key)
	} else {
		g.doubts[key] = doubt
	}
	same := old == doubt || old != nil && doubt != nil && slices.Equal(old.Problems, doubt.Problems)
	if !same && g.cfg.Hooks.Doubt != nil {
		g.cfg.Hooks.Doubt(key, doubt)
	}
}

// set hands a resource to the nodes that care for it. None keeps an earlier state of it, so none
// does not need the former resource. With an error the resource is absent.
func (g *Graph) set(resource policy.Resource) error {
	switch r := resource.(type) {
	case *policy.Policy:
		if err := g.active.UpdatePolicy(r); err != nil {
			return fmt.Errorf("calcgraph: policy %s: %w", r.Key(), err)
		}
	case *policy.Tier:
		g.resolver.UpdateTier(r)
	case *policy.Profile:
		g.sets.UpdateProfile(r)
		g.active.UpdateProfile(r)
		g.passOn.UpdateProfile(r)
	case *policy.NetworkSet:
		g.sets.UpdateNetworkSet(r)
	case *policy.ServiceBackends:
		g.sets.UpdateService(r)
		g.passOn.UpdateService(r)
	case *policy.WorkloadEndpoint:
		g.sets.UpdateEndpoint(r)
		g.routes.UpdateEndpoint(r)
		if r.Node != g.cfg.Node {
			g.removeLocal(r.Key())
			break
		}
		g.resolver.UpdateEndpoint(r)
		g.active.UpdateEndpoint(r)
	case *policy.HostEndpoint:
		g.sets.UpdateHostEndpoint(r)
		if r.Node != g.cfg.Node || inert(r) {
			g.removeLocal(r.Key())
			break
		}
		g.resolver.UpdateHostEndpoint(r)
		g.active.UpdateHostEndpoint(r)
	case *policy.IPPool:
		g.routes.UpdatePool(r)
		g.passOn.UpdatePool(r)
	case *policy.Block:
		g.routes.UpdateBlock(r)
	case *policy.Node:
		g.tunnels.UpdateNode(r)
		g.routes.UpdateNode(r)
		g.passOn.UpdateNode(r)
	}
	return nil
}

// remove withdraws what is known by a key from the nodes that set gives such resources to. Those
// without it do nothing.
func (g *Graph) remove(key policy.Key) {
	if key.Namespace != "" && !namespaced(key.Kind) {
		return // nothing has such a key
	}
	switch key.Kind {
	case policy.KindPolicy, policy.KindStagedPolicy:
		g.active.DeletePolicy(key)
	case policy.KindTier:
		g.resolver.DeleteTier(key.Name)
	case policy.KindProfile:
		g.active.DeleteProfile(key.Name)
		g.sets.DeleteProfile(key.Name)
		g.passOn.DeleteProfile(key.Name)
	case policy.KindServiceBackends:
		g.passOn.DeleteService(key)
		g.sets.Delete(key)
	case policy.KindNetworkSet:
		g.sets.Delete(key)
	case policy.KindWorkloadEndpoint, policy.KindHostEndpoint:
		g.removeLocal(key)
		g.sets.Delete(key)
		g.routes.DeleteEndpoint(key)
	case policy.KindIPPool:
		g.routes.DeletePool(key.Name)
		g.passOn.DeletePool(key.Name)
	case policy.KindBlock:
		g.routes.DeleteBlock(key)
	case policy.KindNode:
		g.tunnels.DeleteNode(key.Name)
		g.routes.DeleteNode(key.Name)
		g.passOn.DeleteNode(key.Name)
	}
}

// namespaced reports whether objects of a kind can have a namespace.
func namespaced(kind policy.Kind) bool {
	switch kind {
	case policy.KindPolicy, policy.KindStagedPolicy, policy.KindNetworkSet, policy.KindWorkloadEndpoint,
		policy.KindServiceBackends:
		return true
	}
	return false
}

// removeLocal withdraws an endpoint that was local, if it was.
func (g *Graph) removeLocal(key policy.Key) {
	g.resolver.DeleteEndpoint(key)
	g.active.DeleteEndpoint(key)
}

// inert reports whether a host endpoint matches no interface (S102).
func inert(h *policy.HostEndpoint) bool { return h.InterfaceName == "" && len(h.ExpectedIPs) == 0 }
