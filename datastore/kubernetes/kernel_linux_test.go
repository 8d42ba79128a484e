// SPDX-License-Identifier: Apache-2.0

package kubernetes_test

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/datastore/kubernetes"
	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
	"github.com/wayleave/wayleave/policy"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// node is a node agent: a Source, a graph and the nftables dataplane, in a namespace of its own.
type node struct {
	*cluster
	ns     *netns.NS
	source *kubernetes.Source
	driver *dataplane.Driver
}

// applied calls a function after each Apply of a dataplane.
type applied struct {
	dataplane.Dataplane
	after func(dataplane.Batch)
}

func (a applied) Apply(ctx context.Context, b dataplane.Batch) error {
	err := a.Dataplane.Apply(ctx, b)
	a.after(b)
	return err
}

// newNode starts the agent of node n0 with the clients of a configuration.
func newNode(c *cluster, cfg kubernetes.Config, after func(dataplane.Batch)) *node {
	c.Helper()
	n := &node{cluster: c, ns: nstest.New(c)}
	require.NoError(c, n.ns.SetSysctl("net/ipv4/ip_forward", "1"))
	graph, err := calcgraph.New(calcgraph.Config{Node: "n0"})
	require.NoError(c, err)
	runner, err := calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph,
		Out:   func(ctx context.Context, b dataplane.Batch) error { return n.driver.Send(ctx, b) },
	})
	require.NoError(c, err)
	filter, err := nft.New(nft.Config{NetNS: n.ns.FD(), Renderer: render.Config{
		InterfacePrefix: "pod", Host: policy.HostConfig{EndpointToHostAction: policy.HostAccept},
	}})
	require.NoError(c, err)
	n.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{applied{filter, after}},
	})
	require.NoError(c, err)
	cfg.Node = "n0"
	n.source, err = kubernetes.New(cfg)
	require.NoError(c, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	var parts sync.WaitGroup
	parts.Go(func() { _ = n.driver.Run(ctx) })
	parts.Go(func() { _ = runner.Run(ctx) })
	parts.Go(func() { _ = n.source.Run(ctx, runner) })
	c.Cleanup(func() {
		cancel()
		parts.Wait()
		require.NoError(c, filter.Close())
	})
	require.NoError(c, n.source.Barrier(c.Context()))
	return n
}

// add creates a pod like kubelet and a CNI plugin: its object, its link and ADD. The pod serves at
// port 80.
func (n *node) add(name, address string) *netns.NS {
	n.Helper()
	n.addPod("default", name, "n0", "", map[string]string{"app": name})
	pod, err := n.CoreV1().Pods("default").Get(n.Context(), name, metav1.GetOptions{})
	require.NoError(n, err)
	workload := nstest.NewWorkload(n, n.ns, "pod"+name, address)
	require.NoError(n, n.ns.Do(func() error {
		return exec.Command("ip", "route", "add", address, "dev", "pod"+name).Run()
	}))
	nstest.Serve(n, workload.NS, address+":80", name)
	ref := pods.Ref{Namespace: "default", Name: name, UID: pod.UID}
	require.NoError(n, n.source.Attach(ref, convert.Attachment{
		Interface: "pod" + name, Addresses: []netip.Addr{netip.MustParseAddr(address)},
	}))
	ctx, cancel := context.WithTimeout(n.Context(), time.Minute)
	defer cancel()
	require.NoError(n, n.source.Barrier(ctx))
	require.NoError(n, n.driver.WaitProgrammed(ctx, ref.Key()))
	return workload.NS
}

// allow returns a policy for app web that allows ingress from app.
func allow(app string) *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(80)
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{
					PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
				}},
				Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
			}},
		},
	}
}

// Edits of a policy and of a pod's labels, and a deletion, take effect on packets, also after the
// server was killed.
func TestEditsTakeEffectOnPackets(t *testing.T) {
	c := newCluster(t, apiserver.Config{})
	n := newNode(c, clients(c, c.REST()), func(dataplane.Batch) {})
	web, one, two := "10.1.0.1", n.add("one", "10.1.0.2"), n.add("two", "10.1.0.3")
	n.add("web", web)
	reached := func() (names []string) {
		for name, ns := range map[string]*netns.NS{"one": one, "two": two} {
			if !nstest.Dropped(t, ns, web+":80") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	eventually := func(want ...string) {
		t.Helper()
		c.eventually(fmt.Sprint("pods that reach web: ", want), func() bool { return slices.Equal(want, reached()) })
	}
	eventually("one", "two")
	policies := c.NetworkingV1().NetworkPolicies("default")
	_, err := policies.Create(t.Context(), allow("one"), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually("one")
	_, err = policies.Update(t.Context(), allow("two"), metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually("two")
	c.Kill()
	require.Equal(t, []string{"two"}, reached(), "while the server is away")
	c.Restart()
	pod, err := c.CoreV1().Pods("default").Get(t.Context(), "two", metav1.GetOptions{})
	require.NoError(t, err)
	pod.Labels = map[string]string{"app": "other"}
	_, err = c.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	eventually()
	require.NoError(t, policies.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually("one", "two")
}

// BenchmarkPropagation measures two times for an edit of a policy. The first is the time of the
// write to the API. The second is the time from the start of the write until the edit is programmed
// on one node.
func BenchmarkPropagation(b *testing.B) {
	c := newCluster(b, apiserver.Config{})
	inKernel := make(chan time.Time, 10)
	n := newNode(c, clients(c, c.REST()), func(batch dataplane.Batch) {
		for _, e := range batch.Events {
			if u, ok := e.(*dataplane.PolicyUpdate); ok && u.Key.Name == "knp.default.web" {
				inKernel <- time.Now()
			}
		}
	})
	n.add("web", "10.1.0.1")
	n.add("one", "10.1.0.2")
	n.add("two", "10.1.0.3")
	policies := c.NetworkingV1().NetworkPolicies("default")
	_, err := policies.Create(b.Context(), allow("one"), metav1.CreateOptions{})
	require.NoError(b, err)
	<-inKernel
	var writes, all []time.Duration
	for app := 0; b.Loop(); app = 1 - app {
		<-time.After(50 * time.Millisecond) // an edit immediately after another waits for it
		start := time.Now()
		_, err := policies.Update(b.Context(), allow([]string{"two", "one"}[app]), metav1.UpdateOptions{})
		require.NoError(b, err)
		writes = append(writes, time.Since(start))
		all = append(all, (<-inKernel).Sub(start))
	}
	report(b, "write", writes)
	report(b, "kernel", all)
	b.ReportMetric(0, "ns/op")
}

// report reports the median and the 99th percentile of durations.
func report(b *testing.B, name string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
}
