// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

var (
	duration = flag.Duration("soak", 5*time.Second, "how long to make changes")
	seed     = flag.Uint64("seed", 1, "seed of the random changes")
)

func TestMain(m *testing.M) { nstest.Main(m) }

const (
	waitTimeout = time.Minute
	// pace is the time between two changes.
	pace = 20 * time.Millisecond
	// pods is the number of pods that are created and deleted, besides two that stay. policies is
	// the number of policies.
	pods, policies = 16, 8
)

// address returns the address of a pod.
func address(i int) string { return fmt.Sprintf("10.0.1.%d", i+1) }

// world makes random changes on a node, and counts them.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	agent *agent
	done  map[string]int
	gone  [pods]bool // links that do not exist
}

func TestSoak(t *testing.T) {
	t.Logf("seed %d", *seed)
	node := nstest.New(t)
	w := &world{t: t, rng: rand.New(rand.NewPCG(*seed, 0)), agent: newAgent(t, node), done: map[string]int{}}
	one := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "one"), "10.0.0.1")
	two := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "two"), "10.0.0.2")
	for i := range pods {
		w.connect(i)
	}
	w.write("base.yaml", base)
	w.agent.start()
	w.agent.ready()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	traffic := startTraffic(ctx, t, one.NS, two.NS)
	began := time.Now()
	w.churn(*duration*2/3, true)
	before := w.agent.usage()
	w.churn(*duration/3, false)
	w.waitIdle()
	after := w.agent.usage()
	traffic.drain(ctx)
	cancel()
	traffic.verify()
	t.Logf("%s: %v; %s", time.Since(began).Round(time.Second), w.done, traffic)
	t.Logf("memory, goroutines and descriptors after two thirds %v, in the end %v", before, after)
	require.Less(t, after.memory, before.memory*3/2+32<<20, "memory is not flat")
	require.LessOrEqual(t, after.goroutines, before.goroutines+10, "goroutines are left")
	require.LessOrEqual(t, after.descriptors, before.descriptors+5, "descriptors are left")
	w.compare()
	w.agent.end(os.Interrupt)
}

// base has the two pods that stay, and the policy between them.
const base = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: one, labels: {stays: one}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: two, labels: {stays: two}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: 10.0.0.2}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: stays}
spec:
  podSelector: {matchLabels: {stays: two}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {stays: one}}}]
      ports: [{port: 80, protocol: TCP}, {port: 53, protocol: UDP}]
`

func (w *world) write(name, content string) {
	w.t.Helper()
	half := filepath.Join(w.agent.manifests, "."+name)
	require.NoError(w.t, os.WriteFile(half, []byte(content), 0o600))
	require.NoError(w.t, os.Rename(half, filepath.Join(w.agent.manifests, name)))
}

func (w *world) remove(name string) { _ = os.Remove(filepath.Join(w.agent.manifests, name)) }

// iface returns the node's interface of a pod.
func iface(i int) string { return convert.InterfaceName("shop", fmt.Sprint("p", i)) }

// connect makes the link of a pod.
func (w *world) connect(i int) {
	w.t.Helper()
	_, _, err := netns.Veth(netns.End{NS: w.agent.node, Name: iface(i)},
		netns.End{NS: w.agent.node, Name: fmt.Sprint("peer", i)})
	require.NoError(w.t, err)
	w.gone[i] = false
}

// churn makes changes for a while.
func (w *world) churn(d time.Duration, kill bool) {
	w.t.Helper()
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-ticker.C {
		w.step(kill)
	}
}

// step makes one change.
func (w *world) step(kill bool) {
	w.t.Helper()
	pod, pol := w.rng.IntN(pods), w.rng.IntN(policies)
	what := w.rng.IntN(100)
	switch {
	case what < 40:
		w.count("endpoints")
		w.writePod(pod)
	case what < 50:
		w.count("deleted endpoints")
		w.remove(fmt.Sprintf("pod%d.yaml", pod))
	case what < 75:
		w.count("policies")
		w.writePolicy(pol)
	case what < 80:
		w.count("deleted policies")
		w.remove(fmt.Sprintf("policy%d.yaml", pol))
	case what < 97:
		w.count("links")
		w.changeLink(pod)
	case kill && what == 98:
		w.count("ends")
		w.agent.end(os.Interrupt)
		w.agent.start()
	case kill:
		w.count("kills")
		w.agent.end(os.Kill)
		w.agent.start()
	}
}

func (w *world) count(what string) { w.done[what]++ }

func (w *world) writePod(i int) {
	w.t.Helper()
	w.write(fmt.Sprintf("pod%d.yaml", i), fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: p%d, labels: {app: a%d}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: %s}]}
`, i, w.rng.IntN(4), address(i)))
}

func (w *world) writePolicy(i int) {
	w.t.Helper()
	w.write(fmt.Sprintf("policy%d.yaml", i), fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: policy%d}
spec:
  podSelector: {matchLabels: {app: a%d}}
  ingress: [{from: [{podSelector: {matchLabels: {app: a%d}}}], ports: [{port: %d}]}]
`, i, w.rng.IntN(4), w.rng.IntN(4), 1+w.rng.IntN(1000)))
}

func (w *world) changeLink(i int) {
	w.t.Helper()
	switch {
	case w.gone[i]:
		w.connect(i)
	case w.rng.IntN(3) == 0:
		require.NoError(w.t, w.agent.node.DeleteLink(iface(i)))
		w.gone[i] = true
	case w.rng.IntN(2) == 0:
		require.NoError(w.t, w.agent.node.Down(iface(i)))
	default:
		require.NoError(w.t, w.agent.node.Up(iface(i)))
	}
}

// waitIdle brings all links up, and waits until the agent has nothing to do and nothing is at
// fault.
func (w *world) waitIdle() {
	w.t.Helper()
	for i := range pods {
		if w.gone[i] {
			w.connect(i)
		}
		require.NoError(w.t, w.agent.node.Up(iface(i)))
	}
	w.writePod(0) // a last change: once it is programmed, all earlier ones are
	w.agent.wait("shop/p0")
	w.agent.ready()
}

// compare requires that the kernel has the state that a start on an empty node programs.
func (w *world) compare() {
	w.t.Helper()
	now := w.agent.kernel()
	require.Contains(w.t, strings.Join(now, "\n"), "10.0.0.2 dev")
	w.agent.end(os.Interrupt)
	require.Equal(w.t, now, w.agent.kernel(), "the end of the agent changes nothing")
	w.agent.command("nft", "delete", "table", "inet", "wayleave")
	w.agent.command("ip", "route", "flush", "proto", "219")
	require.Less(w.t, len(w.agent.kernel()), len(now))
	w.agent.start()
	w.agent.ready()
	require.Equal(w.t, now, w.agent.kernel(), "a start on an empty node programs the same state")
}

// sorted returns the lines of a text in alphabetical order, because objects may be made in any
// order.
func sorted(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}
