// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"

	v3 "github.com/projectcalico/api/pkg/apis/projectcalico/v3"
	"github.com/projectcalico/api/pkg/lib/numorstring"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
	calinet "github.com/projectcalico/calico/libcalico-go/lib/net"
)

// The workloads of the benchmarks, with the names, labels, addresses and selectors of those of
// calcgraph. Each is a sequence of updates in order. Updates are made during iteration, so that a
// dropped update needs no memory.

const (
	// node is the node whose graph is measured.
	node = "n1"
	// elsewhere is the node of all endpoints that are not local.
	elsewhere = "remotehost"
	// localEndpoints is the number of local endpoints of W1 to W3, at any scale.
	localEndpoints = 200
)

// load is one of W1 to W4 at some scale.
type load interface {
	fmt.Stringer
	updates() iter.Seq[api.Update]
	// want has the counts of the messages of the first flush.
	want() tally
}

// snapshot is W1: a cluster of endpoints with six labels each, 200 of them local. Each of its
// policies has five rules. Each rule selects its peers by one of 29 labels.
type snapshot struct{ remote, policies int }

func (w snapshot) String() string { return "eps=" + short(w.remote) + "/pols=" + short(w.policies) }

func (w snapshot) updates() iter.Seq[api.Update] {
	return func(yield func(api.Update) bool) {
		m := markers()
		for i := range w.policies {
			if !yield(tagPolicy(m, i)) {
				return
			}
		}
		_ = each(profiles(), yield) && w.endpoints(1, w.remote+localEndpoints, yield)
	}
}

// endpoints yields the endpoints with the numbers first to last. The result is false if the
// iteration must end.
func (w snapshot) endpoints(first, last int, yield func(api.Update) bool) bool {
	m := markers()
	for s := first; s <= last; s++ {
		if !yield(w.endpoint(m, s)) {
			return false
		}
	}
	return true
}

func (w snapshot) deleteLocal() []api.Update {
	var updates []api.Update
	for s := w.remote + 1; s <= w.remote+localEndpoints; s++ {
		updates = append(updates, update(w.key(s), nil))
	}
	return updates
}

func (w snapshot) want() tally {
	t := tally{
		sets: 29, members: w.remote + localEndpoints, policies: w.policies, profiles: 100, endpoints: localEndpoints,
		start: 2,
	}
	m := markers()
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

// key returns the key of the endpoint with the number s. The endpoints with the numbers 1 to
// w.remote are remote, and the next 200 are local.
func (w snapshot) key(s int) model.WorkloadEndpointKey {
	host := node
	if s <= w.remote {
		host = elsewhere
	}
	return model.WorkloadEndpointKey{
		Hostname: strings.Clone(host), OrchestratorID: "k8s",
		WorkloadID: fmt.Sprintf("wep-%07d", s), EndpointID: "eth0",
	}
}

// endpoint returns the endpoint with the number s. One of its labels has a name from m, the result
// of markers.
func (w snapshot) endpoint(m []string, s int) api.Update {
	return w.endpointWith(s, snapshotLabels(m, s))
}

func (w snapshot) endpointWith(s int, labels map[string]string) api.Update {
	return update(w.key(s), &model.WorkloadEndpoint{
		State: "active", Name: "wl" + strconv.Itoa(s), Labels: labels,
		IPv4Nets: []calinet.IPNet{prefix(10, s, 32)}, ProfileIDs: []string{"namespace-" + strconv.Itoa(s%100)},
	})
}

// snapshotLabels returns the labels of the endpoint with the number s, in newly allocated strings.
func snapshotLabels(m []string, s int) map[string]string {
	labels := make(map[string]string, 6)
	for _, n := range []int{10, 11, 20, 30, 40} {
		labels["one-in-"+strconv.Itoa(n)] = "value-" + strconv.Itoa(s%n)
	}
	labels[strings.Clone(m[s%len(m)])] = strings.Clone("true")
	return labels
}

// markers returns the names of the labels by which policies select. There are 31 names, of which 29
// are distinct.
func markers() []string {
	slashed := []string{
		"calico/FizzBuzz", "calico/BoffBip", "calico/Bazzle", "calico/Razzle", "calico/DoopDeeDoo",
		"calico/SOME_LABEL", "calico/BORED_NOW",
	}
	m := append([]string{"FOO_BAR", "FOO_BAR", "BIFF_BOP"}, slashed...)
	m = append(m, "MyMarkerLabel", "xFOO_BAR", "xBIFF_BOP")
	for _, s := range slashed {
		m = append(m, "x"+s)
	}
	m = append(m, "yxMyMarkerLabel", "yxFOO_BAR", "yxBIFF_BOP")
	for _, s := range slashed {
		m = append(m, "yx"+s)
	}
	return append(m, "yxMyMarkerLabel")
}

func tagPolicy(m []string, i int) api.Update {
	return update(model.PolicyKey{Name: "tag-pol-" + strconv.Itoa(i)}, tagRules(m, i))
}

// tagRules returns what policy i of W1 has.
func tagRules(m []string, i int) *model.Policy {
	p := &model.Policy{Selector: "has(" + m[i%len(m)] + ")", Types: []string{"ingress", "egress"}}
	for j := range 5 {
		p.InboundRules = append(p.InboundRules, allowFrom("has("+m[(i+j)%len(m)]+")"))
	}
	return p
}

func allowFrom(selector string) model.Rule { return model.Rule{Action: "allow", SrcSelector: selector} }

// profiles returns the 100 profiles of W1 to W3.
func profiles() []api.Update {
	var updates []api.Update
	for n := range 100 {
		updates = append(updates, profile(n, "a")...)
	}
	return updates
}

// profile returns the profile with number n. Its label's value ends with the given string.
func profile(n int, value string) []api.Update {
	return profileWith("namespace-"+strconv.Itoa(n), map[string]string{"namespace-label": namespaceLabel(n, value)})
}

func namespaceLabel(n int, value string) string { return "value-" + strconv.Itoa(n) + "-" + value }

// profileWith returns the two updates of a profile.
func profileWith(name string, labels map[string]string) []api.Update {
	return []api.Update{
		profileLabels(name, labels),
		update(model.ProfileRulesKey{ProfileKey: model.ProfileKey{Name: name}}, &model.ProfileRules{}),
	}
}

func profileLabels(name string, labels map[string]string) api.Update {
	return update(model.ResourceKey{Kind: v3.KindProfile, Name: name},
		&v3.Profile{Spec: v3.ProfileSpec{LabelsToApply: labels}})
}

// networkSets is W2 and W3: the endpoints of W1, and policies that select all of them. Each policy
// has a network set of its own as the only source.
type networkSets struct{ remote, sets int }

func (w networkSets) String() string { return "eps=" + short(w.remote) + "/sets=" + short(w.sets) }

func (w networkSets) updates() iter.Seq[api.Update] {
	return func(yield func(api.Update) bool) {
		endpoints := snapshot{remote: w.remote}
		if !each(profiles(), yield) || !endpoints.endpoints(1, w.remote, yield) {
			return
		}
		next := 1
		for i := range w.sets {
			size := w.size(i)
			if !yield(networkSet(i, next, size)) || !yield(networkSetPolicy(i)) {
				return
			}
			next += size
		}
		endpoints.endpoints(w.remote+1, w.remote+localEndpoints, yield)
	}
}

func (networkSets) size(i int) int { return []int{1, 1, 1, 1, 2, 3, 4, 5, 100, 1000}[i%10] }

func (w networkSets) want() tally {
	t := tally{
		sets: w.sets, policies: w.sets, profiles: 100, endpoints: localEndpoints, ingress: w.sets * localEndpoints,
		start: 2,
	}
	for i := range w.sets {
		t.members += w.size(i)
	}
	return t
}

func networkSet(i, first, size int) api.Update {
	name := "network-set-" + strconv.Itoa(i)
	nets := make([]calinet.IPNet, size)
	for n := range nets {
		nets[n] = prefix(11, first+n, 32)
	}
	return update(model.NetworkSetKey{Name: name}, &model.NetworkSet{
		Nets: nets, Labels: map[string]string{"network-set-name": "network-set-" + strconv.Itoa(i)},
	})
}

func networkSetPolicy(i int) api.Update {
	return update(model.PolicyKey{Name: "network-set-pol-" + strconv.Itoa(i)}, &model.Policy{
		Selector: "all()", Types: []string{"ingress"},
		InboundRules: []model.Rule{
			allowFrom(fmt.Sprintf("network-set-name == %q", "network-set-"+strconv.Itoa(i))),
		},
	})
}

// isolated is W4: namespaces with one pod each, whose traffic is limited to itself and a name
// server. 100 of the pods are local.
type isolated struct{ namespaces int }

func (w isolated) String() string { return "namespaces=" + short(w.namespaces) }

func (w isolated) updates() iter.Seq[api.Update] {
	return func(yield func(api.Update) bool) {
		for n := range w.namespaces {
			if !each(isolatedNamespace(n), yield) {
				return
			}
		}
		for n := range w.namespaces {
			if !yield(isolatedPolicy(n)) {
				return
			}
		}
		for n := range w.namespaces {
			if !yield(w.pod(n)) {
				return
			}
		}
	}
}

func (w isolated) want() tally {
	return tally{
		sets: 100, members: 100, policies: 100, profiles: 100, endpoints: 100, ingress: 100, egress: 100,
		namespaces: w.namespaces, start: 2,
	}
}

func isolatedNamespace(n int) []api.Update {
	return profileWith("kns.namespace-"+strconv.Itoa(n), map[string]string{
		strings.Clone("pcns.kubernetes.io/metadata.name"): "namespace-" + strconv.Itoa(n),
		strings.Clone("pcns.id"):                          fmt.Sprintf("id-%017d", n),
		strings.Clone("pcns.production"):                  strconv.FormatBool(n%2 == 0),
	})
}

func isolatedPolicy(n int) api.Update {
	own := fmt.Sprintf("pcns.kubernetes.io/metadata.name == %q", "namespace-"+strconv.Itoa(n))
	udp := numorstring.ProtocolFromString("UDP")
	nameServer := prefix(10, 96<<16+10, 32)
	return update(model.PolicyKey{Name: "namespace-" + strconv.Itoa(n) + "/isolate"}, &model.Policy{
		Namespace: "namespace-" + strconv.Itoa(n), Selector: own, Types: []string{"ingress", "egress"},
		InboundRules: []model.Rule{allowFrom(own)},
		OutboundRules: []model.Rule{
			{Action: "allow", DstSelector: own},
			{
				Action: "allow", Protocol: &udp, DstNets: []*calinet.IPNet{&nameServer},
				DstPorts: []numorstring.Port{numorstring.SinglePort(53)},
			},
		},
	})
}

func (w isolated) pod(n int) api.Update {
	labels := make(map[string]string, 15)
	for i := range 10 {
		labels["shared-label-"+strconv.Itoa(i)] = "value-" + strconv.Itoa(n%(i+2))
	}
	for i := range 5 {
		labels["unique-label-"+strconv.Itoa(i)] = fmt.Sprintf("value-%d-of-pod-%06d", i, n)
	}
	host := elsewhere
	if n >= w.namespaces-100 {
		host = node
	}
	return update(model.WorkloadEndpointKey{
		Hostname: strings.Clone(host), OrchestratorID: "k8s",
		WorkloadID: "namespace-" + strconv.Itoa(n) + "/pod", EndpointID: "eth0",
	}, &model.WorkloadEndpoint{
		State: "active", Name: "wl" + strconv.Itoa(n), Labels: labels,
		IPv4Nets: []calinet.IPNet{prefix(10, n+1, 32)}, ProfileIDs: []string{"kns.namespace-" + strconv.Itoa(n)},
	})
}

// update returns an update that sets or, without a value, deletes a key.
func update(key model.Key, value any) api.Update {
	return api.Update{KVPair: model.KVPair{Key: key, Value: value}}
}

// each yields updates. The result is false if the iteration must end.
func each(updates []api.Update, yield func(api.Update) bool) bool {
	for _, u := range updates {
		if !yield(u) {
			return false
		}
	}
	return true
}

// prefix returns the prefix of the n-th address after first.0.0.0.
func prefix(first byte, n, bits int) calinet.IPNet {
	return calinet.IPNet{IPNet: net.IPNet{
		IP: net.IP{first + byte(n>>24), byte(n >> 16), byte(n >> 8), byte(n)}, Mask: net.CIDRMask(bits, 32),
	}}
}

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
