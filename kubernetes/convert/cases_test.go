// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// clusterCase is a cluster with its expected connectivity.
type clusterCase struct {
	Name       string
	Step       int
	Namespaces map[string]map[string]string
	Nodes      []struct {
		Name   string
		Labels map[string]string
		IPs    []string
	}
	Pods      []casePod
	Externals []struct {
		IPs []netip.Addr
	}
	Policies []json.RawMessage
	Expected []struct {
		Family                    int
		Protocol                  string
		Port                      uint16
		Ingress, Egress, Combined string
	}
	Pokes []struct {
		Src           string
		Dst           string
		DstIP         netip.Addr `json:"dst_ip"`
		Family        int
		Protocol      string
		Port          uint16
		ExpectConnect bool `json:"expect_connected"`
		Subtest       string
	}
}

type casePod struct {
	NS, Name    string
	Labels      map[string]string
	IPs         []netip.Addr
	HostNetwork bool `json:"host_network"`
	Node        string
	Ports       []struct {
		Name     string
		Port     int32
		Protocol corev1.Protocol
	}
}

func (p casePod) object() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.NS, Name: p.Name, Labels: p.Labels}}
	pod.Spec.NodeName = "node"
	if p.Node != "" {
		pod.Spec.NodeName = p.Node
	}
	pod.Spec.HostNetwork = p.HostNetwork
	pod.Spec.Containers = make([]corev1.Container, 1)
	for _, port := range p.Ports {
		pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports,
			corev1.ContainerPort{Name: port.Name, ContainerPort: port.Port, Protocol: port.Protocol})
	}
	for _, ip := range p.IPs {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: ip.String()})
	}
	return pod
}

// party is a row and column of a matrix.
type party struct {
	name        string
	ips         []netip.Addr
	hostNetwork bool
}

func (p party) address(family int) netip.Addr {
	for _, ip := range p.ips {
		if ip.Is4() == (family == 4) {
			return ip
		}
	}
	return netip.Addr{}
}

// TestClusters converts whole clusters, and compares the verdict of every pair of pods with the
// expected matrix. Consecutive steps are also applied to one world, each as the difference from the
// previous step. S125-S139, S142, S144-S154
func TestClusters(t *testing.T) {
	for file, want := range map[string]int{
		"testdata/networkpolicy.jsonl.gz": 70, "testdata/clusternetworkpolicy.jsonl.gz": 15,
	} {
		clusters := readClusters(t, file)
		require.Len(t, clusters, want)
		world := verdict.World{}
		for i, c := range clusters {
			next := c.world(t)
			if i > 0 && c.Step == clusters[i-1].Step+1 {
				world = step(world, next)
			} else {
				world = next
			}
			played := verdict.New(world)
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				c.check(t, verdict.New(next))
				c.check(t, played)
			})
		}
	}
}

// step applies the differences of the new world to a copy of the old one.
func step(before, after verdict.World) verdict.World {
	world := verdict.World{}
	var updates []policy.Update
	for key, old := range before {
		world[key] = old
		if after[key] == nil {
			updates = append(updates, policy.Update{Key: key})
		}
	}
	for key, r := range after {
		if before[key] == nil || !policy.Equal(before[key], r) {
			updates = append(updates, policy.Update{Key: key, Resource: r})
		}
	}
	world.Apply(updates...)
	return world
}

func readClusters(t *testing.T, file string) []clusterCase {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 16<<20)
	var clusters []clusterCase
	for lines.Scan() {
		var c clusterCase
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		clusters = append(clusters, c)
	}
	require.NoError(t, lines.Err())
	return clusters
}

func (c clusterCase) world(t *testing.T) verdict.World {
	t.Helper()
	world := verdict.World{}
	add := func(object metav1.Object) {
		resources, problems := convert.Converter{}.Convert(object)
		require.Empty(t, problems)
		world.Set(resources...)
	}
	for name, labels := range c.Namespaces {
		add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	for _, n := range c.Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
		for _, ip := range n.IPs {
			node.Status.Addresses = append(node.Status.Addresses,
				corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		add(node)
	}
	for _, pod := range c.Pods {
		add(pod.object())
	}
	for _, data := range c.Policies {
		var meta metav1.TypeMeta
		require.NoError(t, json.Unmarshal(data, &meta))
		var object metav1.Object = &networkingv1.NetworkPolicy{}
		if meta.Kind == "ClusterNetworkPolicy" {
			object = &policyv1alpha2.ClusterNetworkPolicy{}
		}
		require.NoError(t, json.Unmarshal(data, object))
		add(object)
	}
	return world
}

// parties returns the rows of the matrices.
func (c clusterCase) parties() []party {
	var parties []party
	for _, p := range c.Pods {
		parties = append(parties, party{p.NS + "/" + p.Name, p.IPs, p.HostNetwork})
	}
	for _, e := range c.Externals {
		parties = append(parties, party{ips: e.IPs})
	}
	return parties
}

func (c clusterCase) check(t *testing.T, e *verdict.Evaluator) {
	t.Helper()
	require.Empty(t, e.Rejected())
	parties := c.parties()
	flow := func(src, dst netip.Addr, protocol string, port uint16) verdict.Flow {
		number, err := policy.ParseProtocol(protocol)
		require.NoError(t, err)
		return verdict.Flow{Src: src, Dst: dst, Protocol: number, SrcPort: 40000, DstPort: port}
	}
	for _, want := range c.Expected {
		var ingress, egress, combined strings.Builder
		for _, src := range parties {
			for _, dst := range parties {
				result := e.Evaluate(flow(src.address(want.Family), dst.address(want.Family), want.Protocol, want.Port))
				none := "-"
				if src.hostNetwork != dst.hostNetwork {
					none = "." // between a node without policy and a pod with policy
				}
				ingress.WriteString(cell(result.Ingress, none))
				egress.WriteString(cell(result.Egress, none))
				combined.WriteString(cell(result.Combined, none))
			}
		}
		require.Equal(t, want.Ingress, ingress.String(), "ingress IPv%d %s %d", want.Family, want.Protocol, want.Port)
		require.Equal(t, want.Egress, egress.String(), "egress IPv%d %s %d", want.Family, want.Protocol, want.Port)
		require.Equal(t, want.Combined, combined.String(), "combined IPv%d %s %d", want.Family, want.Protocol,
			want.Port)
	}
	for _, poke := range c.Pokes {
		var src netip.Addr
		for _, p := range parties {
			if p.name == poke.Src {
				src = p.address(poke.Family)
			}
		}
		want := verdict.Deny
		if poke.ExpectConnect {
			want = verdict.Allow
		}
		require.Equal(t, want, e.Evaluate(flow(src, poke.DstIP, poke.Protocol, poke.Port)).Combined, "%s: %+v",
			poke.Subtest, poke)
	}
}

// cell returns the text of an outcome, or the given text for NotApplicable.
func cell(o verdict.Outcome, none string) string {
	switch o {
	case verdict.Allow:
		return "."
	case verdict.Deny:
		return "X"
	}
	return none
}
