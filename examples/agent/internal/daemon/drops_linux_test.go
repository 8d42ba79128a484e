// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// annotated is a policy for web that has an annotated rule.
const annotated = `apiVersion: projectcalico.org/v3
kind: NetworkPolicy
metadata: {namespace: shop, name: default.web}
spec:
  selector: app == 'web'
  types: [Ingress]
  ingress:
    - {action: Allow, protocol: TCP, destination: {ports: [80]}}
    - {action: Deny, protocol: TCP, destination: {ports: [%d]}, metadata: {annotations: {why: not for shops}}}
`

// A logged packet is reported with the names of both endpoints. The report also has the policy and
// the rule that have the ID in the packet's log prefix, even if the rule was deleted.
func TestDrops(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	write(t, dir, "policy.yaml", fmt.Sprintf(annotated, 81))
	// The agent logs with the IDs of rules, to another group than the one from which the test
	// reads.
	r := startWith(t, node, dir, t.TempDir(), map[string]string{"verdict-log-group": "4"})
	r.until(t, well)

	// The IDs of the rules in the table.
	ids := regexp.MustCompile(`"[^"\n]*\b([a-z2-7]{24})\b[^"\n]*"`).FindAllStringSubmatch(
		get[api.Ruleset](t, r, "/v1/ruleset").Table, -1,
	)
	require.NotEmpty(t, ids)
	var rules strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&rules, "ip daddr 10.0.0.1 log prefix \"deny %s\" group 3\n", id[1])
	}
	text := "table inet mine {\nchain c {\ntype filter hook prerouting priority -100\n" +
		"ip daddr 10.0.0.1 log prefix \"deny no rule at all\" group 3\n" +
		"ip daddr 10.0.0.1 log prefix \"allow x\" group 3\n" + rules.String() + "}\n}\n"
	file := filepath.Join(t.TempDir(), "mine.nft")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.Empty(t, nft(t, node, "-f", file))

	ctx, cancel := context.WithCancel(t.Context())
	verdicts, ended := make(chan api.Verdict, 10000), make(chan error, 1)
	go func() {
		ended <- api.Stream(ctx, r.Client, "/v1/drops?group=3&rate=10000", func(v api.Verdict) error {
			verdicts <- v
			return nil
		})
	}()
	until := func(holds func(api.Verdict) bool) api.Verdict {
		ticker, timeout := time.NewTicker(10*time.Millisecond), time.After(waitTimeout)
		defer ticker.Stop()
		for {
			select {
			case v := <-verdicts:
				require.Equal(t, "deny", v.Decision, "allowed packets were not requested")
				if holds(v) {
					return v
				}
			case err := <-ended:
				t.Fatal(err)
			case <-timeout:
				t.Fatal("no such verdict")
			case <-ticker.C:
				_ = cart.NS.Do(func() error { // fails: no server listens, or policy denies it
					conn, err := net.DialTimeout("tcp", "10.0.0.1:81", time.Millisecond)
					if err == nil {
						err = conn.Close()
					}
					return err
				})
			}
		}
	}
	v := until(func(v api.Verdict) bool { return v.Rule != nil && *v.Rule == 1 })
	require.Equal(t, "shop/cart shop/web", v.From+" "+v.To)
	require.Equal(t, "10.0.0.2 10.0.0.1 TCP 81", fmt.Sprint(v.Src, " ", v.Dst, " ", v.Protocol, " ", v.DstPort))
	require.Equal(t, convert.InterfaceName("shop", "cart"), v.In)
	require.Equal(t, "Policy/shop/default.web default ingress", fmt.Sprint(v.Policy, " ", v.Tier, " ", v.Direction))
	require.Equal(t, map[string]string{"why": "not for shops"}, v.Annotations)
	require.Empty(t, v.Reason)
	v = until(func(v api.Verdict) bool { return v.Policy == nil })
	require.Equal(t, "no rule at all", v.Reason)

	// The rule is replaced by another one. A packet about which the old rule decided is still
	// reported with the old rule.
	write(t, dir, "policy.yaml", fmt.Sprintf(annotated, 82))
	r.until(t, func(s pipeline.State) bool { return well(s) && s.Events > 0 })
	for len(verdicts) > 0 {
		<-verdicts
	}
	until(func(v api.Verdict) bool {
		return v.Rule != nil && *v.Rule == 1 && v.Annotations["why"] == "not for shops"
	})

	// A second client receives the verdicts, too. Another program cannot follow the agent's group.
	second, leave := context.WithCancel(t.Context())
	secondEnded := make(chan error, 1)
	go func() {
		secondEnded <- api.Stream(second, r.Client, "/v1/drops?group=3&rate=10000", func(api.Verdict) error {
			leave()
			return nil
		})
	}()
	until(func(api.Verdict) bool { return second.Err() != nil })
	require.ErrorIs(t, <-secondEnded, context.Canceled)
	other := nflog.Config{Group: 3, NetNS: node.FD()}
	require.ErrorContains(t, nflog.Follow(t.Context(), other, nil), "group 3: ")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	r.end(t)
}

// If another program follows a group, the agent cannot follow it, and the request fails. A request
// with invalid parameters fails, too.
func TestDropsRefused(t *testing.T) {
	node, dir := shop(t)
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	other := nflog.Config{Group: 4, NetNS: node.FD()}
	following, release := context.WithCancel(t.Context())
	released := make(chan error, 1)
	go func() { released <- nflog.Follow(following, other, func(nflog.Entry) error { return nil }) }()
	require.Eventually(t, func() bool { // until the other program follows: the first column is the group
		var groups []byte
		require.NoError(t, node.Do(func() (err error) {
			groups, err = os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_log")
			return err
		}))
		return regexp.MustCompile(`(?m)^ *4 `).Match(groups)
	}, waitTimeout, time.Millisecond)
	err := api.Stream[api.Verdict](t.Context(), r.Client, "/v1/drops?group=4&rate=1", nil)
	require.ErrorContains(t, err, "group 4: ")
	require.ErrorContains(t, err, "a program other than the agent may receive it")
	release()
	require.ErrorIs(t, <-released, context.Canceled)

	for query, want := range map[string]string{
		"group=x&rate=1": `group: want a number from 0 to 65535, not "x"`, "group=70000&rate=1": `not "70000"`,
		"group=3&rate=0": `rate: want a number from 1, not "0"`,
	} {
		require.ErrorContains(t, api.Stream[api.Verdict](t.Context(), r.Client, "/v1/drops?"+query, nil), want)
	}
	r.end(t)
}

// The agent can log verdicts itself: a denied packet is reported with the rule that denied it, or
// with the reason if no rule did.
func TestDropsOfAgent(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	cart := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "cart"), "10.0.0.2")
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+pod("cart", "10.0.0.2"))
	write(t, dir, "policy.yaml", fmt.Sprintf(annotated, 81))
	r := start(t, node, dir, t.TempDir())
	r.until(t, well)
	err := api.Stream(t.Context(), r.Client, "/v1/drops?rate=10", func(api.Verdict) error { return nil })
	require.ErrorContains(t, err, "verdicts are not logged: set verdict-log-group, or give --group")

	group := func(n int) {
		write(t, dir, "agent.yaml", fmt.Sprintf("apiVersion: wayleave.dev/v1\nkind: AgentConfig\n"+
			"metadata: {name: default}\nspec: {verdict-log-group: %d}\n", n))
		r.until(t, func(s pipeline.State) bool {
			return well(s) && strings.Contains(s.Table().String(), fmt.Sprintf("group %d", n))
		})
	}
	group(3)
	seen := map[string]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	var knocking sync.WaitGroup // ends before the workload's namespace is closed
	defer knocking.Wait()
	defer cancel()
	var moved atomic.Bool
	knocking.Go(func() { // from the workload, repeatedly, because the time at which the agent listens is unknown
		for ctx.Err() == nil {
			ports := []int{81, 82}
			if moved.Load() {
				ports = []int{83}
			}
			for _, port := range ports {
				_ = cart.NS.Do(func() error {
					conn, err := net.DialTimeout("tcp", fmt.Sprintf("10.0.0.1:%d", port), time.Millisecond)
					if err == nil {
						err = conn.Close()
					}
					return err
				})
			}
		}
	})
	err = api.Stream(ctx, r.Client, "/v1/drops?rate=10000", func(v api.Verdict) error {
		switch {
		case v.DstPort == 81 && v.Rule != nil && *v.Rule == 1 && v.Annotations["why"] == "not for shops":
			seen["rule"] = true
		case v.DstPort == 82 && v.Policy == nil && v.Reason != "":
			seen["reason"] = true
		case v.DstPort == 83:
			cancel()
		}
		if len(seen) == 2 && !moved.Load() { // clients do not notice that the agent logs to another group
			group(4)
			moved.Store(true)
		}
		return nil
	})
	require.True(t, moved.Load())
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, seen, 2)
	r.end(t)
}
