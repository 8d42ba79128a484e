// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// Evaluator evaluates flows in one world. It is immutable and safe for concurrent use.
type Evaluator struct {
	host       policy.HostConfig
	forbidden  []policy.Encapsulation
	interfaces map[string]map[string][]netip.Addr
	rejected   map[policy.Key]error
	doubts     map[policy.Key]error
	policies   []*compiledPolicy // in the order of policy.ComparePolicies
	tiers      []*tier
	profiles   map[string]*profile
	workloads  map[policy.Key]*object
	addresses  map[netip.Addr][]*object // endpoints by address, sorted by key
	sets       []*object                // network sets, sorted by key
	services   map[serviceName]*service
	nodes      map[string]*node
	// nodeAddresses are the Addresses of all Nodes.
	nodeAddresses map[netip.Addr]bool
	staging       listed // staged policies, and the policies that they would replace
}

// profile is a profile with its rules compiled.
type profile struct {
	source *policy.Profile
	labels map[string]string
	rules  ruleLists
}

// object is an object that selectors select: a workload endpoint, a host endpoint or a network set.
type object struct {
	key    policy.Key
	name   string // of the key
	labels selector.Map
	// workload and host are nil, unless the object is such an endpoint.
	workload *policy.WorkloadEndpoint
	host     *policy.HostEndpoint
	ports    []policy.EndpointPort
	profiles []string
	nets     policy.Nets // of a network set
}

// New compiles a world with the default Config. Later changes of w do not affect the Evaluator.
func New(w World) *Evaluator { return newEvaluator(w, Config{}) }

func newEvaluator(w World, cfg Config) *Evaluator {
	e := &Evaluator{
		host:       cfg.Host.WithDefaults(),
		forbidden:  cfg.Host.ForbiddenEncapsulations(),
		interfaces: cfg.Interfaces,
		rejected:   map[policy.Key]error{},
		doubts:     map[policy.Key]error{},
		profiles:   map[string]*profile{},
		workloads:  map[policy.Key]*object{},
		addresses:  map[netip.Addr][]*object{},
		services:   map[serviceName]*service{},
		nodes:      map[string]*node{},

		nodeAddresses: map[netip.Addr]bool{},
	}
	valid := e.admit(w)
	for _, r := range valid {
		switch r := r.(type) {
		case *policy.ServiceBackends:
			e.addService(r)
		case *policy.Node:
			e.addNode(r)
		}
	}
	e.addTiers(w, e.addRules(valid))
	for _, r := range valid {
		switch r := r.(type) {
		case *policy.WorkloadEndpoint:
			e.addWorkload(r)
		case *policy.HostEndpoint:
			e.addHostEndpoint(r)
		case *policy.NetworkSet:
			o := newObject(r.Key(), r.Labels)
			o.nets = r.Nets
			e.sets = append(e.sets, o)
		}
	}
	return e
}

// Rejected returns the invalid resources that the Evaluator treats as absent, each with the reason.
func (e *Evaluator) Rejected() map[policy.Key]error { return maps.Clone(e.rejected) }

// Doubts returns the policies that are enforced and have closed rules. The error of each policy is
// a *policy.DoubtError. The result also has any other resource for which policy.Update.Admit
// returns a DoubtError.
func (e *Evaluator) Doubts() map[policy.Key]error { return maps.Clone(e.doubts) }

// admit returns the admitted resources, sorted by key.
func (e *Evaluator) admit(w World) []policy.Resource {
	var valid []policy.Resource
	for _, key := range slices.SortedFunc(maps.Keys(w), policy.Key.Compare) {
		r, err := policy.Update{Key: key, Resource: w[key]}.Admit()
		switch {
		case r == nil && err != nil:
			e.rejected[key] = err
		case err != nil:
			e.doubts[key] = err
		}
		if r != nil {
			valid = append(valid, r)
		}
	}
	return valid
}

// addRules compiles profiles and policies. It returns the policies.
func (e *Evaluator) addRules(valid []policy.Resource) []*compiledPolicy {
	c := &compiler{services: e.services}
	if builtin, ok := policy.BuiltinProfile(policy.DefaultAllowProfile); ok {
		valid = append([]policy.Resource{builtin}, valid...) // a later resource with its name replaces it
	}
	var policies []*compiledPolicy
	for _, r := range valid {
		switch r := r.(type) {
		case *policy.Profile:
			if p, err := c.profile(r); err != nil {
				e.rejected[r.Key()] = err
			} else {
				e.profiles[r.Name] = p
			}
		case *policy.Policy:
			if p, err := c.policy(r); err != nil {
				e.rejected[r.Key()] = err
			} else {
				policies = append(policies, p)
			}
		}
	}
	return policies
}
