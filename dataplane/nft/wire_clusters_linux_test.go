// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// wireCluster is a Kubernetes cluster with the connectivity that it must have. Its matrices have a
// row for each source and a column for each destination: pods first, then addresses outside.
type wireCluster struct {
	Name string
	Step int
	Pods []struct {
		NS, Name    string
		IPs         []netip.Addr
		HostNetwork bool `json:"host_network"`
	}
	Externals []struct{ IPs []netip.Addr }
	Expected  []struct {
		Family             int
		Protocol, Combined string
		Port               uint16
	}
	Pokes []struct {
		Src           string
		DstIP         netip.Addr `json:"dst_ip"`
		Family        int
		Protocol      string
		Port          uint16
		ExpectConnect bool `json:"expect_connected"`
	}
	// resources that the cluster converts to.
	resources verdict.World
}

// readLines reads each line of a zipped file.
func readLines[T any](t *testing.T, file string) (list []T) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		list = append(list, v)
	}
	require.NoError(t, lines.Err())
	return list
}

// wireClusters reads the clusters and their converted form.
func wireClusters(t *testing.T) []wireCluster {
	t.Helper()
	clusters := readLines[wireCluster](t, "../../kubernetes/convert/testdata/networkpolicy.jsonl.gz")
	clusters = append(
		clusters, readLines[wireCluster](t, "../../kubernetes/convert/testdata/clusternetworkpolicy.jsonl.gz")...,
	)
	converted := readLines[struct {
		Name      string
		Resources []json.RawMessage
	}](t, "testdata/clusters.jsonl.gz")
	require.Len(t, converted, len(clusters))
	for i, c := range converted {
		require.Equal(t, clusters[i].Name, c.Name)
		clusters[i].resources = verdict.World{}
		for _, data := range c.Resources {
			r, err := policy.Decode(data)
			require.NoError(t, err)
			clusters[i].resources.Set(r)
		}
	}
	return clusters
}

// wirePods is the maximum number of pods of a cluster.
const wirePods = 34

// TestWireClusters sends a packet between every two addresses of every cluster, for the protocol
// and port of each matrix. The daily sample has only every fourth matrix. All pods are on one node.
// Other addresses, and pods with host networking, are behind eth0. The steps of one case are
// applied as differences.
func TestWireClusters(t *testing.T) { nfttest.EachFormInParallel(t, testWireClusters) }

func testWireClusters(t *testing.T, classes render.ClassesConfig) {
	interfaces := []string{"eth0"}
	for i := range wirePods {
		interfaces = append(interfaces, fmt.Sprintf("way%d", i))
	}
	b := newWire(t, interfaces, nil)
	clusters := wireClusters(t)
	require.Len(t, clusters, 85)
	sent := 0
	var node *clusterNode
	for i, c := range clusters {
		if i == 0 || c.Step != clusters[i-1].Step+1 {
			if node != nil {
				require.NoError(t, node.plane.Close())
			}
			node = newClusterNode(t, b, classes)
		}
		node.become(t, c.resources)
		sent += node.check(t, c)
	}
	t.Logf("%d packets", sent)
	require.Greater(t, sent, 20_000)
}

// clusterNode is the node of all pods of a cluster.
type clusterNode struct {
	wire       *wire
	graph      *calcgraph.Graph
	plane      *nft.Dataplane
	at         verdict.World
	interfaces map[policy.Key]string
	owners     map[netip.Addr]string // the interface of each address
	sport      uint16                // of all connections of one matrix
	sent       int                   // since the last reset of connection tracking
}

func newClusterNode(t *testing.T, b *wire, classes render.ClassesConfig) *clusterNode {
	t.Helper()
	n := &clusterNode{wire: b, at: verdict.World{}, interfaces: map[policy.Key]string{}, sport: firstPort}
	b.resetConntrack(t)
	var err error
	n.graph, err = calcgraph.New(calcgraph.Config{Node: wireNode})
	require.NoError(t, err)
	n.graph.InSync()
	n.plane, err = nft.New(onFastPath(nft.Config{
		Renderer: render.Config{Classes: classes, NAT: render.NATConfig{Disabled: true}}, NetNS: b.node.FD(),
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.plane.Close()) })
	return n
}

// wireNode is the name of the node to which the pods are moved.
const wireNode = "here"

// firstPort is the first of the source ports.
const firstPort = 20_000

// become applies the resources to the node, with all pods on it.
func (n *clusterNode) become(t *testing.T, resources verdict.World) {
	t.Helper()
	next := verdict.World{}
	n.owners = map[netip.Addr]string{}
	for _, k := range slices.SortedFunc(maps.Keys(resources), policy.Key.Compare) {
		r := policy.Clone(resources[k])
		if pod, ok := r.(*policy.WorkloadEndpoint); ok {
			if n.interfaces[k] == "" {
				n.interfaces[k] = fmt.Sprintf("way%d", len(n.interfaces))
			}
			pod.Node, pod.Interface = wireNode, n.interfaces[k]
			for _, a := range pod.Addresses {
				n.owners[a] = pod.Interface
			}
		}
		next.Set(r)
	}
	for k := range n.at {
		if next[k] == nil {
			n.graph.Update(policy.Update{Key: k})
		}
	}
	for k, r := range next {
		if n.at[k] == nil || !policy.Equal(n.at[k], r) {
			n.graph.Update(policy.Update{Key: k, Resource: r})
		}
	}
	n.at = next
	require.NoError(t, n.plane.Apply(t.Context(), n.graph.Flush()))
}

// endOf returns the end of a flow at an address.
func (n *clusterNode) endOf(a netip.Addr) nfttest.FlowEnd {
	if iface, ok := n.owners[a]; ok {
		return endOf(iface, a)
	}
	return endOf("eth0", a)
}

// check sends the packets of the matrices and single connections of a cluster.
func (n *clusterNode) check(t *testing.T, c wireCluster) (sent int) {
	t.Helper()
	var addresses [][]netip.Addr
	named := map[string][]netip.Addr{}
	for _, p := range c.Pods {
		addresses = append(addresses, p.IPs)
		named[p.NS+"/"+p.Name] = p.IPs
	}
	for _, e := range c.Externals {
		addresses = append(addresses, e.IPs)
	}
	for i, m := range c.Expected {
		if i > 0 && i%4 != 0 && !wireWhole() {
			continue
		}
		cells := strings.ReplaceAll(m.Combined, "\n", "")
		require.Len(t, cells, len(addresses)*len(addresses), c.Name)
		var flows []wireFlow
		var want []bool
		for i, cell := range cells {
			src, dst := of(addresses[i/len(addresses)], m.Family), of(addresses[i%len(addresses)], m.Family)
			if cell == '-' || src == dst || !src.IsValid() || !dst.IsValid() ||
				n.endOf(src).Iface == n.endOf(dst).Iface {
				continue
			}
			flows, want = append(flows, n.flow(t, src, dst, m.Protocol, m.Port)), append(want, cell == '.')
		}
		sent += n.compare(t, c.Name, flows, want)
	}
	for _, p := range c.Pokes {
		src := of(named[p.Src], p.Family)
		if !src.IsValid() || n.endOf(src).Iface == n.endOf(p.DstIP).Iface {
			continue
		}
		sent += n.compare(t, c.Name, []wireFlow{n.flow(t, src, p.DstIP, p.Protocol, p.Port)}, []bool{p.ExpectConnect})
	}
	return sent
}

// of returns the address of a family.
func of(list []netip.Addr, family int) netip.Addr {
	for _, a := range list {
		if a.Is4() == (family == 4) {
			return a
		}
	}
	return netip.Addr{}
}

func (n *clusterNode) flow(t *testing.T, src, dst netip.Addr, protocol string, port uint16) wireFlow {
	t.Helper()
	number, err := policy.ParseProtocol(protocol)
	require.NoError(t, err)
	w := wireFlow{from: n.endOf(src), to: n.endOf(dst)}
	w.Flow = verdict.Flow{Src: src, Dst: dst, Protocol: number, SrcPort: n.sport, DstPort: port}
	n.wire.setRoute(t, dst, w.to.Iface)
	return w
}

// compare sends new connections and compares the arrived packets with the expected ones.
func (n *clusterNode) compare(t *testing.T, name string, flows []wireFlow, want []bool) int {
	t.Helper()
	n.sport++
	if n.sent += len(flows); n.sent > 30_000 { // a reset is slow
		n.wire.resetConntrack(t)
		n.sent = 0
	}
	const at = 64 // number at once: the node's queues are limited
	for from := 0; from < len(flows); from += at {
		some := flows[from:min(from+at, len(flows))]
		for i, got := range n.wire.volley(t, some) {
			if got != want[from+i] {
				require.Equal(
					t, want[from+i], got, "%s: %s, %s to %s\n%s", name, some[i].Flow, some[i].from.Iface,
					some[i].to.Iface, n.plane.Table(),
				)
			}
		}
	}
	return len(flows)
}
