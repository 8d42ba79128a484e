// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/examples/agent/internal/build"
	"github.com/wayleave/wayleave/examples/agent/internal/flows"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// status answers with the status of the agent. While the first pipeline waits for a directory, p is
// nil.
func (d *Daemon) status(_ *http.Request, p *pipeline.Pipeline) (any, error) {
	d.mu.Lock()
	problems := slices.Concat(d.unread, d.problems)
	d.mu.Unlock()
	s := api.Status{
		Node: d.local.Node, Started: d.started, Version: build.Read().String(),
		Unreadable: d.unreadable(p), Endpoints: map[string]int{},
		Rejected: d.rejected.Load(), Restarts: d.restarts.Load(), Settings: problems,
	}
	recording := d.recordingNow()
	s.Recording, s.RecordingError = recording.file, text(recording.err)
	if d.cluster != nil {
		state := d.cluster.State()
		s.Store = &state
	}
	if d.kube != nil {
		state := d.kube.State()
		s.Kubernetes = &state
	}
	s.Wireguard = d.wireguardStatus()
	if p == nil {
		s.Waiting = slices.Sorted(maps.Keys(s.Unreadable))
		return s, nil
	}
	d.addPipeline(&s, p)
	// Ready is read last, so that it includes every dispute that s reports. A source that s reports
	// as waiting may have come into sync since.
	s.Ready = d.health.CheckReady().OK && len(s.Waiting) == 0
	return s, nil
}

// addPipeline adds the status of a pipeline to that of the agent.
func (d *Daemon) addPipeline(s *api.Status, p *pipeline.Pipeline) {
	status, stats := p.Status(), p.Driver().Stats()
	s.Waiting, s.Objects = p.Waiting(), p.Objects()
	s.Pending, s.Failures = status.Pending, status.Failures
	s.LastDuration, s.LastError = status.LastDuration, text(status.LastError)
	s.LastApply, s.Attempts, s.Failed = stats.Last, stats.Attempts, stats.Failed
	s.Drifts, s.Repairs, s.Queue = stats.Drifts, stats.Repairs, stats.Queue
	if p.NoGracePeriod() {
		s.Kernel = append(s.Kernel, "membarrier is refused: during a change, a packet may use parts of both states")
	}
	s.Policy = policyCost(p.ClassStats())
	for _, dispute := range p.Driver().Disputes() {
		s.Disputes = append(s.Disputes, dispute.String())
	}
	doubts := p.Doubts()
	for _, key := range slices.SortedFunc(maps.Keys(doubts), policy.Key.Compare) {
		s.Doubts = append(s.Doubts, api.Doubt{Key: key, Problem: doubts[key].Error()})
	}
	for _, e := range status.Endpoints {
		s.Endpoints[e.State.String()]++
	}
}

// policyCost returns the cost of policy and its limits; nil before the first apply.
func policyCost(s render.ClassStats) *api.PolicyCost {
	if s.MaxTotal == 0 {
		return nil
	}
	out := &api.PolicyCost{
		Cost: s.Cost, Limit: s.MaxTotal, LargestCost: s.Largest.Cost, GroupLimit: s.MaxPerGroup,
		ChainGroups: s.ChainGroups,
	}
	if s.Largest.Endpoints > 0 {
		out.Largest = s.Largest.String()
	}
	for _, g := range s.Chains {
		out.Chains = append(out.Chains, fmt.Sprintf("cost %d, %s", g.Cost, g))
	}
	return out
}

func (d *Daemon) config(*http.Request, *pipeline.Pipeline) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.effective.Values, nil
}

func (d *Daemon) ruleset(*http.Request, *pipeline.Pipeline) (any, error) {
	d.mu.Lock()
	copyTable := d.table
	d.mu.Unlock()
	if copyTable == nil {
		return nil, errors.New("nothing is in the kernel yet: 'agent status' has the reason")
	}
	table := copyTable() // without mu, because it waits for the transaction in progress
	if table == nil {
		return nil, errors.New("nothing is in the kernel yet: 'agent status' has the reason")
	}
	return api.Ruleset{Table: table.String()}, nil
}

func (d *Daemon) endpoints(_ *http.Request, p *pipeline.Pipeline) (any, error) {
	view, err := p.View()
	if err != nil {
		return nil, err
	}
	status := p.Status()
	list := d.rejectedEndpoints(p)
	for _, event := range view.Batch.Events {
		var e api.Endpoint
		switch event := event.(type) {
		case *dataplane.EndpointUpdate:
			e = api.Endpoint{
				Key: event.Key, Interface: event.Endpoint.Interface, Addresses: texts(event.Endpoint.Addresses),
				Ingress: tiers(event.Endpoint.Ingress), Egress: tiers(event.Endpoint.Egress),
				Profiles: event.Endpoint.Profiles,
			}
		case *dataplane.HostEndpointUpdate:
			h := event.HostEndpoint
			e = api.Endpoint{
				Key: event.Key, Interface: h.Interface, Addresses: texts(h.Addresses),
				Ingress: tiers(h.Ingress), Egress: tiers(h.Egress), Profiles: h.Profiles,
			}
		default:
			continue
		}
		e.State = dataplane.EndpointPending.String()
		if s, ok := status.Endpoints[e.Key]; ok {
			e.State, e.Generation, e.Unjudged = s.State.String(), s.Generation, s.Unjudged
			if s.Err != nil {
				e.Error = s.Err.Error()
			}
			var at *dataplane.ApplyError
			if errors.As(s.Err, &at) && at.Object != (policy.Key{}) {
				e.Object = &at.Object
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// rejectedEndpoints returns the registered endpoints that are not programmed because their
// interface belongs to another endpoint.
func (d *Daemon) rejectedEndpoints(p *pipeline.Pipeline) []api.Endpoint {
	list := []api.Endpoint{}
	if d.registry == nil {
		return list
	}
	conflicts := p.Conflicts()
	for _, key := range slices.SortedFunc(maps.Keys(conflicts), policy.Key.Compare) {
		if e := d.registry.Get(key); e != nil {
			list = append(list, api.Endpoint{
				Key: key, State: dataplane.EndpointFailed.String(), Error: conflicts[key].Error(),
				Interface: e.Interface, Addresses: texts(e.Addresses), Ingress: []string{}, Egress: []string{},
				Profiles: e.Profiles,
			})
		}
	}
	return list
}

// text returns the text of an error; "" for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// texts returns the texts of the items of a list.
func texts[T fmt.Stringer](list []T) []string {
	out := []string{}
	for _, x := range list {
		out = append(out, x.String())
	}
	return out
}

func tiers(list []dataplane.TierPolicies) []string {
	out := []string{}
	for _, t := range list {
		out = append(out, t.Tier+": "+strings.Join(texts(t.Policies), ", "))
	}
	return out
}

func (d *Daemon) policies(_ *http.Request, p *pipeline.Pipeline) (any, error) {
	view, err := p.View()
	if err != nil {
		return nil, err
	}
	list := []api.Policy{}
	for _, s := range view.Policies {
		list = append(list, api.Policy{Key: s.Key, Tier: s.Tier, Selector: s.Selector, Endpoints: s.Endpoints})
	}
	return list, nil
}

func (d *Daemon) sets(r *http.Request, p *pipeline.Pipeline) (any, error) {
	view, err := p.View()
	if err != nil {
		return nil, err
	}
	members := map[dataplane.IPSetID][]dataplane.Member{}
	for _, e := range view.Batch.Events {
		if e, ok := e.(*dataplane.IPSetUpdate); ok {
			members[e.ID] = e.Members
		}
	}
	list := []api.Set{}
	for _, s := range view.Sets {
		set := api.Set{ID: string(s.ID), Meaning: s.Selector, Size: len(members[s.ID]), Owners: s.Owners}
		if s.Service != "" {
			set.Meaning = "service " + s.Service
		}
		if s.PortName != "" {
			set.Meaning += fmt.Sprintf(" port %s/%s", s.Protocol, s.PortName)
		}
		if r.URL.Query().Get("members") == "true" {
			set.Members = texts(members[s.ID])
		}
		list = append(list, set)
	}
	return list, nil
}

func (d *Daemon) routes(_ *http.Request, p *pipeline.Pipeline) (any, error) {
	view, err := p.View()
	if err != nil {
		return nil, err
	}
	list := []api.Route{}
	for _, e := range view.Batch.Events {
		if e, ok := e.(*dataplane.RouteUpdate); ok {
			r := api.Route{Dst: e.Route.Dst.String(), Type: e.Route.Type.String(), Node: e.Route.Node}
			if e.Route.NodeAddress.IsValid() {
				r.Via = e.Route.NodeAddress.String()
			}
			if e.Route.Pool != dataplane.PoolNone {
				r.Pool = e.Route.Pool.String()
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func (d *Daemon) explain(r *http.Request, p *pipeline.Pipeline) (any, error) {
	q, err := read[api.Question](r)
	if err != nil {
		return nil, err
	}
	world := p.World()
	parsed, err := flows.Parse(world, q.From, q.To, q.Port)
	if err != nil {
		var party *flows.PartyError
		if errors.As(err, &party) {
			err = fmt.Errorf("%w: 'agent endpoints' lists those of this node", err)
		}
		return nil, err
	}
	return flows.Explain(world, parsed, func(policies []policy.Key) flows.Origins {
		return d.origins(r.Context(), p, policies)
	})
}

// origins returns the places of policies and their rules: in the manifests, and in the Kubernetes
// API.
func (d *Daemon) origins(ctx context.Context, p *pipeline.Pipeline, policies []policy.Key) flows.Origins {
	origins := p.Origins()
	if d.kube != nil {
		policies = slices.DeleteFunc(policies, func(key policy.Key) bool { return !p.Has(kube.Name, key) })
		rules, places := d.kube.RuleOrigins(ctx, policies), map[policy.Key]manifest.PolicyOrigin{}
		for _, key := range policies {
			if object, ok := convert.Origin(key); ok {
				places[key] = manifest.PolicyOrigin{Object: object}
			}
		}
		maps.Copy(rules, origins.Rules) // manifests come before the API
		maps.Copy(places, origins.Policies)
		origins.Rules, origins.Policies = rules, places
	}
	return origins
}

// wait waits until an endpoint is programmed in the form that the sources now have.
func (d *Daemon) wait(r *http.Request, p *pipeline.Pipeline) (any, error) {
	q, err := read[api.Wait](r)
	if err != nil {
		return nil, err
	}
	namespace, name, ok := strings.Cut(q.Endpoint, "/")
	if !ok {
		namespace, name = "", q.Endpoint
	}
	key := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: namespace, Name: name}
	ctx, cancel, err := limited(r)
	if err != nil {
		return nil, err
	}
	defer cancel()
	err = d.waitOn(ctx, p, func(p *pipeline.Pipeline) error {
		if e, ok := p.World()[key].(*policy.WorkloadEndpoint); ok {
			return p.WaitProgrammed(ctx, e)
		}
		return p.Driver().WaitProgrammed(ctx, key) // the endpoint may be added later
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s is not programmed after %s: %w", q.Endpoint, r.URL.Query().Get("timeout"),
			d.unprogrammed(d.current(), key))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", q.Endpoint, err)
	}
	return struct{}{}, nil
}

// unprogrammed returns the reason why an endpoint is not programmed.
func (d *Daemon) unprogrammed(p *pipeline.Pipeline, key policy.Key) error {
	s, sent := p.Status().Endpoints[key]
	_, known := p.World()[key]
	switch waiting := d.waitingFor(p); {
	case s.Err != nil:
		return s.Err
	case waiting != "":
		return fmt.Errorf("not read completely: %s", waiting)
	case !known:
		return errors.New("no source has such an endpoint: 'agent endpoints' lists those of this node")
	case !sent:
		return errors.New("the graph has not processed it yet: see 'agent status'")
	}
	return errors.New("the driver has not programmed it yet: see 'agent status'")
}
