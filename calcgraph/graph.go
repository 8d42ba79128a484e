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
	// Node is the name of the node for which events are computed. Endpoints with this Node are
	// local. Required.
	Node string
	// Names adds events for namespaces, service accounts and services, for dataplanes that use
	// their names and labels. The graph then needs memory for each of these objects. The default is
	// false. Events for nodes and pools are always included.
	Names bool
	// UnreachableRoutes sends routes of type RouteRemoteUnreachable also while this node's Node
	// resource has no WireGuard keys. Set it if a wireguard.Dataplane gets the events: it still
	// encrypts if the keys are removed, and without these routes, packets would leave unencrypted.
	UnreachableRoutes bool
	// Hooks report events to the caller. Optional.
	Hooks Hooks
}

// Hooks are optional functions that the graph calls from Update, in the caller's goroutine.
type Hooks struct {
	// Rejected is called for each update whose resource is invalid, except in the cases that Doubt
	// reports. The graph treats such a resource as if it did not exist.
	Rejected func(key policy.Key, err error)
	// Doubt is called when a policy has other doubts than before. A doubt is a part of a rule, or a
	// performance hint, that the graph does not understand. Doubt is called with nil when the
	// policy has no doubts any more, or is deleted or invalid. An invalid profile with the name of
	// a built-in profile is in doubt, too.
	Doubt func(key policy.Key, doubt *policy.DoubtError)
}

func (c Config) validate() error {
	if c.Node == "" {
		return errors.New("calcgraph: Config.Node: required")
	}
	return nil
}

// Graph computes the events for one node from updates of resources. The caller calls Update, InSync
// and Flush, or uses a Runner.
//
// A Graph keeps references to these resources: policies, profiles, tiers, pools, blocks, nodes,
// service backends and local endpoints. Of all other resources, it stores only labels and
// addresses, in a compact form.
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
	relay    Relay
	seq      *Sequencer
}

// New returns an empty graph. The package documentation shows how the parts of a graph are
// connected. New fails if the configuration is invalid.
func New(cfg Config) (*Graph, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seq := NewSequencer() // the last node of all paths
	sets, err := NewIPSets(seq)
	if err != nil {
		return nil, err
	}
	// Policy: ActiveRules sends matches to the PolicyResolver, and policies and profiles to the
	// RuleScanner, which sends sets to IPSets.
	resolver := NewPolicyResolver(seq)
	scanner := NewRuleScanner(RuleScannerConfig{Sets: sets, Rules: seq})
	active, err := NewActiveRules(ActiveRulesConfig{Policies: scanner, Profiles: scanner, Matches: resolver})
	if err != nil {
		return nil, err
	}
	// Routes: the TunnelResolver sends tunnel endpoints to the RouteResolver.
	routes, err := NewRouteResolver(RouteResolverConfig{
		Node: cfg.Node, Routes: seq, UnreachableRoutes: cfg.UnreachableRoutes,
	})
	if err != nil {
		return nil, err
	}
	tunnels, err := NewTunnelResolver(TunnelResolverConfig{Node: cfg.Node, Tunnels: bothTunnels{routes, seq}})
	if err != nil {
		return nil, err
	}
	relay := Relay{Nodes: seq, Pools: seq}
	if cfg.Names {
		relay.Services, relay.Namespaces, relay.ServiceAccounts = seq, seq, seq
	}
	return &Graph{
		cfg: cfg, doubts: map[policy.Key]*policy.DoubtError{}, active: active, scanner: scanner, sets: sets,
		resolver: resolver, tunnels: tunnels, routes: routes, relay: relay, seq: seq,
	}, nil
}

// Update sets the latest state of one object. The resource must not be changed afterwards. If the
// resource is invalid, or its key differs from the update's key, the graph deletes the object with
// the update's key. There are two exceptions:
//
//   - If the graph does not understand a rule of a policy, the rule is closed. A closed Allow or
//     Log matches nothing, and any other closed rule denies everything.
//   - If the invalid resource is a profile, and its update names a built-in profile, the graph uses
//     a profile that denies everything.
func (g *Graph) Update(u policy.Update) {
	resource, err := u.Admit()
	var doubt *policy.DoubtError
	if err != nil {
		var found *policy.DoubtError // here, because As moves it to the heap
		if !errors.As(err, &found) {
			g.reject(u.Key, err)
		}
		doubt = found
	}
	if resource == nil {
		g.remove(u.Key)
	} else if err := g.set(resource); err != nil {
		g.reject(u.Key, err)
		doubt = nil
	}
	g.setDoubt(u.Key, doubt)
}

// InSync marks the end of the initial state: Update has received everything that the datastore had.
// Endpoints, tunnels and routes are emitted from the next flush on. Further calls have no effect.
func (g *Graph) InSync() {
	g.inSync = true
	g.seq.InSync()
}

// Flush returns the changes since the last flush. The batch is empty if there are none.
func (g *Graph) Flush() dataplane.Batch {
	if g.inSync {
		g.resolver.Flush()
		g.tunnels.Flush()
		g.routes.Flush() // after the tunnels, which it needs
	}
	return g.seq.Flush()
}

func (g *Graph) reject(key policy.Key, err error) {
	g.rejected++
	if g.cfg.Hooks.Rejected != nil {
		g.cfg.Hooks.Rejected(key, err)
	}
}

// setDoubt reports the doubts of a policy, nil for none, if they changed since the last report.
func (g *Graph) setDoubt(key policy.Key, doubt *policy.DoubtError) {
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

// set sends a resource to the nodes that process its kind. If it returns an error, the resource is
// absent.
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
		g.relay.UpdateProfile(r)
	case *policy.NetworkSet:
		g.sets.UpdateNetworkSet(r)
	case *policy.ServiceBackends:
		g.sets.UpdateService(r)
		g.relay.UpdateService(r)
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
		g.relay.UpdatePool(r)
	case *policy.Block:
		g.routes.UpdateBlock(r)
	case *policy.Node:
		g.tunnels.UpdateNode(r)
		g.routes.UpdateNode(r)
		g.relay.UpdateNode(r)
	}
	return nil
}

// remove deletes a key in the nodes that process its kind. Deleting a key that does not exist has
// no effect.
func (g *Graph) remove(key policy.Key) {
	if key.Namespace != "" && !namespaced(key.Kind) {
		return // no object has such a key
	}
	switch key.Kind {
	case policy.KindPolicy, policy.KindStagedPolicy:
		g.active.DeletePolicy(key)
	case policy.KindTier:
		g.resolver.DeleteTier(key.Name)
	case policy.KindProfile:
		g.active.DeleteProfile(key.Name)
		g.sets.DeleteProfile(key.Name)
		g.relay.DeleteProfile(key.Name)
	case policy.KindServiceBackends:
		g.relay.DeleteService(key)
		g.sets.Delete(key)
	case policy.KindNetworkSet:
		g.sets.Delete(key)
	case policy.KindWorkloadEndpoint, policy.KindHostEndpoint:
		g.removeLocal(key)
		g.sets.Delete(key)
		g.routes.DeleteEndpoint(key)
	case policy.KindIPPool:
		g.routes.DeletePool(key.Name)
		g.relay.DeletePool(key.Name)
	case policy.KindBlock:
		g.routes.DeleteBlock(key)
	case policy.KindNode:
		g.tunnels.DeleteNode(key.Name)
		g.routes.DeleteNode(key.Name)
		g.relay.DeleteNode(key.Name)
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

// removeLocal deletes an endpoint in the nodes for local endpoints.
func (g *Graph) removeLocal(key policy.Key) {
	g.resolver.DeleteEndpoint(key)
	g.active.DeleteEndpoint(key)
}

// inert reports whether a host endpoint matches no interface (S102).
func inert(h *policy.HostEndpoint) bool { return h.InterfaceName == "" && len(h.ExpectedIPs) == 0 }
