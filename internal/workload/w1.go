// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"iter"
	"net/netip"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

const (
	// Node is the node of the local endpoints.
	Node = "n1"
	// Local is the number of local endpoints, whatever the size of the cluster.
	Local = 200
	// elsewhere is the node of all other endpoints.
	elsewhere = "remotehost"
)

// W1 is a cluster for benchmarks. 200 of its endpoints are on the node n1, and are called local.
// Each endpoint has six labels. Each policy has five rules. The policies use 29 labels in total:
// each rule selects its peers by one of them.
type W1 struct {
	// Remote is the number of remote endpoints.
	Remote int
	// Policies is the number of policies.
	Policies int
}

// Updates returns the updates that add all resources, in the order in which benchmarks send them.
// It makes each update only when the iteration reaches it, so that the memory of earlier updates
// can be freed.
func (w W1) Updates() iter.Seq[policy.Update] {
	return func(yield func(policy.Update) bool) {
		m := Markers()
		for i := range w.Policies {
			if !yield(update(Policy(m, i))) {
				return
			}
		}
		for u := range w.Endpoints() {
			if !yield(u) {
				return
			}
		}
	}
}

// Endpoints returns what Updates returns, without the policies.
func (w W1) Endpoints() iter.Seq[policy.Update] {
	return func(yield func(policy.Update) bool) {
		for n := range 100 {
			if !yield(update(Profile(n, "a"))) {
				return
			}
		}
		m := Markers()
		for s := 1; s <= w.Remote+Local; s++ {
			if !yield(update(w.Endpoint(m, s))) {
				return
			}
		}
	}
}

// Endpoint returns the endpoint with the number s. The endpoints with the numbers 1 to w.Remote are
// remote, and the next 200 are local. One of the endpoint's labels has a name from m, which must be
// the result of Markers.
func (w W1) Endpoint(m []string, s int) *policy.WorkloadEndpoint {
	labels := make(map[string]string, 6)
	for _, n := range []int{10, 11, 20, 30, 40} {
		labels["one-in-"+strconv.Itoa(n)] = "value-" + strconv.Itoa(s%n)
	}
	labels[strings.Clone(m[s%len(m)])] = strings.Clone("true")
	e := &policy.WorkloadEndpoint{
		Name: fmt.Sprintf("wep-%07d", s), Node: strings.Clone(Node), Interface: "wl" + strconv.Itoa(s), Labels: labels,
		Addresses: []netip.Addr{IPv4(10, s)}, Profiles: []string{"namespace-" + strconv.Itoa(s%100)},
	}
	if s <= w.Remote {
		e.Node = strings.Clone(elsewhere)
	}
	return e
}

// Markers returns the names of the labels by which policies select. There are 31 names, of which 29
// are distinct.
func Markers() []string {
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

// Policy returns the policy with number i, from 0 on. It selects by labels with names from m, which
// must be the result of Markers.
func Policy(m []string, i int) *policy.Policy {
	p := &policy.Policy{
		Name: "tag-pol-" + strconv.Itoa(i), Selector: "has(" + m[i%len(m)] + ")",
		Types: []policy.Type{policy.Ingress, policy.Egress},
	}
	for j := range 5 {
		p.Ingress = append(p.Ingress, policy.Rule{
			Action: policy.Allow, Source: policy.EntityRule{Selector: "has(" + m[(i+j)%len(m)] + ")"},
		})
	}
	return p
}

// Profile returns the profile with number n, from 0 to 99. The profile has one label. The label's
// value ends with the given string.
func Profile(n int, value string) *policy.Profile {
	return &policy.Profile{
		Name:          "namespace-" + strconv.Itoa(n),
		LabelsToApply: map[string]string{"namespace-label": "value-" + strconv.Itoa(n) + "-" + value},
	}
}

// IPv4 returns the n-th address after first.0.0.0.
func IPv4(first byte, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{first + byte(n>>24), byte(n >> 16), byte(n >> 8), byte(n)})
}

func update(r policy.Resource) policy.Update { return policy.Update{Key: r.Key(), Resource: r} }
