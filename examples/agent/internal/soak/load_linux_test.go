// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// The load: pods on other nodes, pods on this node, policies, and how often the agent ends.
const (
	remotes, locals, loadPolicies, ends = 3000, 20, 300, 12
	roles                               = 30
)

// loadManifests returns one of two worlds. Between them, the role of each remote pod differs, and
// the port and peer of each policy.
func loadManifests(version int) string {
	var out strings.Builder
	pod := func(name, node, ip, label string) {
		fmt.Fprintf(&out, `---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: %s, labels: {%s}}
spec: {nodeName: %s, containers: [{name: c}]}
status: {podIPs: [{ip: %s}]}
`, name, label, node, ip)
	}
	for i := range remotes {
		pod(fmt.Sprint("r", i), "m", fmt.Sprintf("10.2.%d.%d", i/250, i%250), fmt.Sprint("role: r", (i+version)%roles))
	}
	for i := range locals {
		pod(fmt.Sprint("p", i), "n", address(i), fmt.Sprint("app: a", i))
	}
	for i := range loadPolicies {
		fmt.Fprintf(&out, `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: policy%d}
spec:
  podSelector: {matchLabels: {app: a%d}}
  ingress: [{from: [{podSelector: {matchLabels: {role: r%d}}}], ports: [{port: %d}]}]
`, i, i%locals, (i+2*version)%roles, loadPort(version, i))
	}
	return out.String()
}

func loadPort(version, i int) int { return 10000*(1+version) + i }

// SIGTERM or SIGKILL during a start or a large change loses no allowed packet and passes no denied
// one. After SIGTERM, the agent ends without an error, and the kernel has one of the two states
// completely.
func TestSignalDuringChangeLosesNoPacket(t *testing.T) {
	t.Logf("seed %d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	node := nstest.New(t)
	w := &world{t: t, rng: rng, agent: newAgent(t, node), done: map[string]int{}}
	one := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "one"), "10.0.0.1")
	two := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "two"), "10.0.0.2")
	for i := range locals {
		_, _, err := netns.Veth(netns.End{NS: node, Name: iface(i)}, netns.End{NS: node, Name: fmt.Sprint("peer", i)})
		require.NoError(t, err)
	}
	w.write("base.yaml", base)
	worlds := [2]string{loadManifests(0), loadManifests(1)}
	var whole [2][]string // the kernel state of each world
	w.write("load.yaml", worlds[0])
	w.agent.start()
	for version := range whole {
		w.write("load.yaml", worlds[version])
		whole[version] = w.reach(version)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	traffic := startTraffic(ctx, t, one.NS, two.NS)
	began := time.Now()
	for i := range ends {
		w.write("load.yaml", worlds[i%2])
		pause(ctx, time.Duration(rng.Int64N(int64(400*time.Millisecond))))
		if i%3 == 2 {
			w.count("SIGKILL")
			w.agent.end(os.Kill)
		} else {
			w.agent.end(syscall.SIGTERM)
			w.count("SIGTERM, new: " + fmt.Sprint(w.current(whole) == i%2))
		}
		w.agent.start()
		if i%4 == 3 {
			w.agent.ready()
		}
	}
	last := (ends - 1) % 2
	require.Equal(t, whole[last], w.reach(last))
	traffic.drain(ctx)
	cancel()
	traffic.verify()
	t.Logf("%s: %v; %s", time.Since(began).Round(time.Second), w.done, traffic)
	w.compare()
	w.agent.end(syscall.SIGTERM)
}

// reach waits until the kernel has the state of a world, and returns that state.
func (w *world) reach(version int) []string {
	w.t.Helper()
	marks := []string{fmt.Sprint(loadPort(version, 0)), fmt.Sprint(loadPort(version, loadPolicies-1))}
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitTimeout); ; <-ticker.C {
		text := strings.Join(w.agent.kernel(), "\n")
		if strings.Contains(text, marks[0]) && strings.Contains(text, marks[1]) {
			break
		}
		require.False(w.t, time.Now().After(deadline), "is not programmed\n%s", w.agent.log.String())
	}
	w.agent.ready()
	return w.agent.kernel()
}

// current returns the world whose complete state the kernel has. It requires that there is one.
func (w *world) current(whole [2][]string) int {
	w.t.Helper()
	now := w.agent.kernel()
	for version, want := range whole {
		if strings.Join(now, "\n") == strings.Join(want, "\n") {
			return version
		}
	}
	require.Equal(w.t, whole[0], now, "neither of the two worlds")
	return 0
}
