// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Config is what a Graph needs to know.
type Config struct {
	// Node is the name of the node that events are computed for: the endpoints whose Node
	// field equals it are local. Required.
	Node string
	// Hooks tell the caller what happens. Optional.
	Hooks Hooks
}

// Hooks are optional functions that the graph calls from Update, on the caller's goroutine.
type Hooks struct {
	// Rejected is called for a resource that is treated as absent because it is invalid, each time
	// it comes.
	Rejected func(key policy.Key, err error)
}

func (c Config) validate() error {
	if c.Node == "" {
		return errors.New("calcgraph: Config.Node: required")
	}
	return nil
}

// Graph computes the events for one node from updates of resources. It can be driven by hand, with Update,
// InSync and Flush, or by a Runner.
//
// A Graph is not safe for concurrent use.
type Graph struct {
	cfg Config
	// current holds the valid resources, to recognise updates that change nothing.
	current map[policy.Key]policy.Resource
	inSync  bool

	active   *ActiveRules
	sets     *IPSets
	resolver *PolicyResolver
	seq      *Sequencer
}

// New returns an empty graph, its nodes wired as the picture in the package's documentation shows. It fails if the
// configuration is invalid.
func New(cfg Config) (*Graph, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	seq := NewSequencer()
	sets, err := NewIPSets(seq)
	if err != nil {
		return nil, err
	}
	resolver := NewPolicyResolver(seq)
	scanner := NewRuleScanner(RuleScannerConfig{Sets: sets, Rules: seq})
	active, err := NewActiveRules(ActiveRulesConfig{Policies: scanner, Profiles: scanner, Matches: resolver})
	if err != nil {
		return nil, err
	}
	return &Graph{
		cfg:      cfg,
		current:  map[policy.Key]policy.Resource{},
		active:   active,
		sets:     sets,
		resolver: resolver,
		seq:      seq,
	}, nil
}

// Update takes the latest state of one object. The resource must not be changed afterwards. A resource that
// is invalid, or whose key is not the update's, counts as absent under the update's key.
func (g *Graph) Update(u policy.Update) {
	resource := u.Resource
	if err := u.Validate(); err != nil {
		g.reject(u.Key, err)
		resource = nil
	}
	old := g.current[u.Key]
	switch {
	case resource == nil && old == nil:
		return
	case resource == nil:
		delete(g.current, u.Key)
		g.remove(old)
	case old != nil && policy.Equal(old, resource):
		return
	default:
		g.current[u.Key] = resource
		g.set(resource)
	}
}

// InSync says that everything the datastore held at start has been given to Update. Endpoints
// are emitted from the next flush on. Further calls do nothing.
func (g *Graph) InSync() {
	g.inSync = true
	g.seq.InSync()
}

// Flush returns what has changed since the last flush; the batch is empty if nothing has.
func (g *Graph) Flush() dataplane.Batch {
	if g.inSync {
		g.resolver.Flush()
	}
	return g.seq.Flush()
}

func (g *Graph) reject(key policy.Key, err error) {
	if g.cfg.Hooks.Rejected != nil {
		g.cfg.Hooks.Rejected(key, err)
	}
}

// set hands a resource to the nodes that care for it.
func (g *Graph) set(resource policy.Resource) {
	switch r := resource.(type) {
	case *policy.Policy:
		g.resolver.UpdatePolicy(r)
		if err := g.active.UpdatePolicy(r); err != nil {
			g.reject(r.Key(), fmt.Errorf("calcgraph: policy %s: %w", r.Key(), err))
		}
	case *policy.Tier:
		g.resolver.UpdateTier(r)
	case *policy.Profile:
		g.sets.UpdateProfile(r)
		g.active.UpdateProfile(r)
	case *policy.NetworkSet:
		g.sets.UpdateNetworkSet(r)
	case *policy.WorkloadEndpoint:
		g.sets.UpdateEndpoint(r)
		if r.Node != g.cfg.Node {
			g.removeLocal(r.Key())
			return
		}
		g.resolver.UpdateEndpoint(r)
		g.active.UpdateEndpoint(r)
	}
}

// remove withdraws a resource from the nodes that set gave it to.
func (g *Graph) remove(resource policy.Resource) {
	key := resource.Key()
	switch resource.(type) {
	case *policy.Policy:
		g.resolver.DeletePolicy(key)
		g.active.DeletePolicy(key)
	case *policy.Tier:
		g.resolver.DeleteTier(key.Name)
	case *policy.Profile:
		g.active.DeleteProfile(key.Name)
		g.sets.DeleteProfile(key.Name)
	case *policy.NetworkSet:
		g.sets.Delete(key)
	case *policy.WorkloadEndpoint:
		g.removeLocal(key)
		g.sets.Delete(key)
	}
}

// removeLocal withdraws an endpoint that was local, if it was.
func (g *Graph) removeLocal(key policy.Key) {
	g.resolver.DeleteEndpoint(key)
	g.active.DeleteEndpoint(key)
}
