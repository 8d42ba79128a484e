// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/workload"
	"github.com/wayleave/wayleave/policy"
)

// The workloads of the benchmarks. Each is a sequence of updates in order. Updates are made during
// iteration, so that a dropped update needs no memory.

const (
	// localEndpoints is the number of local endpoints of W1 to W3, at any scale.
	localEndpoints = workload.Local
	// elsewhere is the node of all other endpoints.
	elsewhere = "remotehost"
)

// snapshot is W1: a cluster of endpoints with six labels each, 200 of them local. The cluster has
// policies of five rules. Each rule selects its peers by one of 29 labels.
type snapshot struct{ remote, policies int }

func (w snapshot) String() string { return "eps=" + short(w.remote) + "/pols=" + short(w.policies) }

func (w snapshot) shared() workload.W1 { return workload.W1{Remote: w.remote, Policies: w.policies} }

func (w snapshot) updates() iter.Seq[policy.Update] { return w.shared().Updates() }

func (w snapshot) deleteLocal() []policy.Update {
	m := workload.Markers()
	var updates []policy.Update
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		updates = append(updates, policy.Update{Key: w.shared().Endpoint(m, s).Key()})
	}
	return updates
}

func (w snapshot) want() tally {
	t := tally{
		sets: 29, members: w.remote + localEndpoints, policies: w.policies, profiles: 100, endpoints: localEndpoints,
	}
	m := workload.Markers()
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		for i := range w.policies {
			if m[i%31] == m[s%31] {
				t.ingress++
			}
		}
	}
	t.egress = t.ingress
	return t
}

// networkSets is W2 and W3: the endpoints of W1, and policies that select all of them. Each policy
// has a network set of its own as the only source.
type networkSets struct{ remote, sets int }

func (w networkSets) String() string { return "eps=" + short(w.remote) + "/sets=" + short(w.sets) }

func (w networkSets) updates() iter.Seq[policy.Update] {
	return func(yield func(policy.Update) bool) {
		for u := range (workload.W1{Remote: w.remote}).Endpoints() {
			if e, ok := u.Resource.(*policy.WorkloadEndpoint); ok && e.Node == node {
				continue
			}
			if !yield(u) {
				return
			}
		}
		next := 1
		for i := range w.sets {
			size := w.size(i)
			if !yield(update(networkSet(i, next, size))) || !yield(update(networkSetPolicy(i))) {
				return
			}
			next += size
		}
		m := workload.Markers()
		for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
			if !yield(update(snapshot{remote: w.remote}.shared().Endpoint(m, s))) {
				return
			}
		}
	}
}

func (networkSets) size(i int) int { return []int{1, 1, 1, 1, 2, 3, 4, 5, 100, 1000}[i%10] }

func (w networkSets) want() tally {
	t := tally{
		sets: w.sets, policies: w.sets, profiles: 100, endpoints: localEndpoints, ingress: w.sets * localEndpoints,
	}
	for i := range w.sets {
		t.members += w.size(i)
	}
	return t
}

func networkSet(i, first, size int) *policy.NetworkSet {
	set := &policy.NetworkSet{
		Name:   "network-set-" + strconv.Itoa(i),
		Labels: map[string]string{"network-set-name": "network-set-" + strconv.Itoa(i)},
		Nets:   make(policy.Nets, size),
	}
	for n := range set.Nets {
		set.Nets[n] = netip.PrefixFrom(workload.IPv4(11, first+n), 32)
	}
	return set
}

func networkSetPolicy(i int) *policy.Policy {
	return &policy.Policy{
		Name: "network-set-pol-" + strconv.Itoa(i), Selector: "all()",
		Ingress: []policy.Rule{{
			Action: policy.Allow,
			Source: policy.EntityRule{Selector: fmt.Sprintf("network-set-name == %q", "network-set-"+strconv.Itoa(i))},
		}},
	}
}

// isolated is W4: namespaces with one pod each, whose traffic is limited to itself and a name
// server. 100 of the pods are local. The names begin with number first.
type isolated struct{ namespaces, first int }

func (w isolated) String() string { return "namespaces=" + short(w.namespaces) }

func (w isolated) updates() iter.Seq[policy.Update] {
	return func(yield func(policy.Update) bool) {
		for n := range w.namespaces {
			if !yield(update(isolatedNamespace(w.first + n))) {
				return
			}
		}
		for n := range w.namespaces {
			if !yield(update(isolatedPolicy(w.first + n))) {
				return
			}
		}
		for n := range w.namespaces {
			if !yield(update(w.pod(w.first + n))) {
				return
			}
		}
	}
}

func (w isolated) want() tally {
	return tally{sets: 100, members: 100, policies: 100, profiles: 100, endpoints: 100, ingress: 100, egress: 100}
}

func isolatedNamespace(n int) *policy.Profile {
	return &policy.Profile{
		Name: "kns.namespace-" + strconv.Itoa(n),
		LabelsToApply: map[string]string{
			strings.Clone("pcns.kubernetes.io/metadata.name"): "namespace-" + strconv.Itoa(n),
			strings.Clone("pcns.id"):                          fmt.Sprintf("id-%017d", n),
			strings.Clone("pcns.production"):                  strconv.FormatBool(n%2 == 0),
		},
	}
}

func isolatedPolicy(n int) *policy.Policy {
	own := policy.EntityRule{
		Selector: fmt.Sprintf("pcns.kubernetes.io/metadata.name == %q", "namespace-"+strconv.Itoa(n)),
	}
	return &policy.Policy{
		Namespace: "namespace-" + strconv.Itoa(n), Name: "isolate", Selector: own.Selector,
		Types:   []policy.Type{policy.Ingress, policy.Egress},
		Ingress: []policy.Rule{{Action: policy.Allow, Source: own}},
		Egress: []policy.Rule{
			{Action: policy.Allow, Destination: own},
			{Action: policy.Allow, Protocol: policy.ProtocolUDP, Destination: policy.EntityRule{
				Nets:  policy.Nets{netip.MustParsePrefix("10.96.0.10/32")},
				Ports: []policy.Port{policy.PortNumber(53)},
			}},
		},
	}
}

func (w isolated) pod(n int) *policy.WorkloadEndpoint {
	labels := make(map[string]string, 15)
	for i := range 10 {
		labels["shared-label-"+strconv.Itoa(i)] = "value-" + strconv.Itoa(n%(i+2))
	}
	for i := range 5 {
		labels["unique-label-"+strconv.Itoa(i)] = fmt.Sprintf("value-%d-of-pod-%06d", i, n)
	}
	e := &policy.WorkloadEndpoint{
		Namespace: "namespace-" + strconv.Itoa(n), Name: "pod", Node: strings.Clone(elsewhere),
		Interface: "wl" + strconv.Itoa(n), Labels: labels,
		Addresses: []netip.Addr{workload.IPv4(10, n+1)}, Profiles: []string{"kns.namespace-" + strconv.Itoa(n)},
	}
	if n >= w.first+w.namespaces-100 {
		e.Node = strings.Clone(node)
	}
	return e
}

func update(r policy.Resource) policy.Update { return policy.Update{Key: r.Key(), Resource: r} }

// short formats 250000 as 250k and 1000000 as 1M.
func short(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1_000 && n%1_000 == 0:
		return strconv.Itoa(n/1_000) + "k"
	}
	return strconv.Itoa(n)
}

// tally has counts of the events of a first batch.
type tally struct {
	sets, members, policies, profiles, endpoints int
	// ingress and egress count the references of endpoints to policies.
	ingress, egress int
}

// count counts the first batch of a graph, in which each object occurs once.
func count(batch dataplane.Batch) tally {
	var t tally
	for _, event := range batch.Events {
		switch e := event.(type) {
		case *dataplane.IPSetUpdate:
			t.sets++
			t.members += len(e.Members)
		case *dataplane.PolicyUpdate:
			t.policies++
		case *dataplane.ProfileUpdate:
			t.profiles++
		case *dataplane.EndpointUpdate:
			t.endpoints++
			t.ingress += references(e.Endpoint.Ingress)
			t.egress += references(e.Endpoint.Egress)
		}
	}
	return t
}

// countRemovals counts the removals in a batch.
func countRemovals(batch dataplane.Batch) tally {
	var t tally
	for _, event := range batch.Events {
		switch event.(type) {
		case *dataplane.IPSetRemove:
			t.sets++
		case *dataplane.PolicyRemove:
			t.policies++
		case *dataplane.ProfileRemove:
			t.profiles++
		case *dataplane.EndpointRemove:
			t.endpoints++
		}
	}
	return t
}

// references counts the policies of an endpoint in one direction.
func references(tiers []dataplane.TierPolicies) int {
	n := 0
	for _, tier := range tiers {
		n += len(tier.Policies)
	}
	return n
}

// TestWorkloads checks the counts of each workload at a small scale, with a mirror. The benchmarks
// check them at theirs.
func TestWorkloads(t *testing.T) {
	for _, w := range []load{
		snapshot{remote: 3100, policies: 310},
		networkSets{remote: 100, sets: 50},
		isolated{namespaces: 300},
	} {
		t.Run(fmt.Sprintf("%T", w), func(t *testing.T) {
			p := newPipeline(t)
			for u := range w.updates() {
				p.graph.Update(u)
			}
			p.graph.InSync()
			batch := p.graph.Flush()
			require.NoError(t, p.mirror.Play(batch))
			require.Equal(t, w.want(), count(batch))
			state := p.mirror.State()
			require.Len(t, state.Sets, w.want().sets)
			require.Len(t, state.Endpoints, w.want().endpoints)
		})
	}
	t.Run("full size is that of the recorded figures", func(t *testing.T) {
		want := snapshot{remote: 250_000, policies: 10_000}.want()
		require.Equal(t, 250_200, want.members)
		require.Equal(t, 72_893, want.ingress)
		require.Equal(t, 111_800, networkSets{sets: 1_000}.want().members)
		require.Equal(t, 1_118_000, networkSets{sets: 10_000}.want().members)
	})
	t.Run("deletion of the local endpoints of W1 removes all state", func(t *testing.T) {
		w := snapshot{remote: 3100, policies: 310}
		p := newPipeline(t)
		for u := range w.updates() {
			p.graph.Update(u)
		}
		p.graph.InSync()
		require.NoError(t, p.mirror.Play(p.graph.Flush()))
		for _, u := range w.deleteLocal() {
			p.graph.Update(u)
		}
		batch := p.graph.Flush()
		require.NoError(t, p.mirror.Play(batch))
		require.Equal(t, tally{sets: 29, policies: 310, profiles: 100, endpoints: 200}, countRemovals(batch))
		state := p.mirror.State()
		require.Empty(t, state.Sets)
		require.Empty(t, state.Policies)
		require.Empty(t, state.Endpoints)
	})
}
