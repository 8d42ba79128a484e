// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// startAnAgent runs an agent on the manifests until the test ends, and sets WAYLEAVE_SOCKET, so
// that commands find the agent. It returns the agent's namespace.
func startAnAgent(t *testing.T, dir string, options ...string) *netns.NS {
	t.Helper()
	node := nstest.New(t)
	nstest.NewWorkload(t, node, convert.InterfaceName("shop", "six"), "2001:db8::6")
	socket := filepath.Join(t.TempDir(), "agent.sock")
	t.Setenv("WAYLEAVE_SOCKET", socket)
	values := map[string]string{
		"node": "n", "manifests": dir, "endpoint-dir": "", "socket": socket, "http-address": "",
		"forward-ipv6": "true",
	}
	for _, option := range options {
		values[option] = "true"
	}
	ctx, cancel := context.WithCancel(t.Context())
	programmed, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			NetNS: node.FD(),
			Programmed: func(s pipeline.State) {
				if s.Table() != nil && s.Err == nil {
					once.Do(func() { close(programmed) })
				}
			},
			Below: []settings.Layer{{Source: "test", Values: values}},
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case <-programmed:
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
	case <-time.After(waitTimeout):
		t.Fatal("the agent has not programmed anything")
	}
	return node
}

const onePod = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: six, labels: {app: six}}
spec: {nodeName: n, containers: [{name: c}]}
status: {podIPs: [{ip: "2001:db8::6"}]}
`

const denyAll = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: deny}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

func TestQueryCommands(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod})
	startAnAgent(t, dir)
	for _, row := range []struct{ args, out, json string }{
		{"status", "ready       yes\n", `"ready": true,`},
		{"status", "policy      cost 0 of 400000; largest group 0 of 65536\n", `"groupLimit": 65536,`},
		{"status", ", revision ", `"version": "`},
		{"endpoints", "shop/six  up", `"state": "up",`},
		{"policies", "POLICY  TIER  ENDPOINTS  SELECTOR\n", "[]\n"},
		{"sets", "SET  MEMBERS  OWNERS  MEANING  CONTENT\n", "[]\n"},
		{"routes", "2001:db8::6/128  local-workload  n", `"dst": "2001:db8::6/128",`},
		{"ruleset", "table inet wayleave {\n", `"table": "table inet wayleave {\n`},
		{"config", `"n" `, `"origin": "test"`},
		{"wait shop/six", "shop/six is programmed\n", `"endpoint": "shop/six"`},
		{"explain 2001:db8::7 shop/six tcp/80", ": Allow\n", `"combined":"Allow"`},
	} {
		code, out, errs := call(t, strings.Fields(row.args)...)
		require.Zero(t, code, "%s: %s", row.args, errs)
		require.Empty(t, errs, row.args)
		require.Contains(t, out, row.out, row.args)
		code, out, errs = call(t, append(strings.Fields(row.args), "-o", "json")...)
		require.Zero(t, code, "%s: %s", row.args, errs)
		require.Contains(t, out, row.json, row.args)
	}
	code, _, errs := call(t, "wait", "shop/nobody", "--timeout", "1ms")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "shop/nobody is not programmed after 1ms")
	require.Contains(t, errs, "no source has such an endpoint: 'agent endpoints' lists those of this node\n")
	code, _, errs = call(t, "explain", "shop/nobody", "shop/six", "tcp/80")
	require.Equal(t, 1, code)
	require.Contains(t, errs, "known pod (NAMESPACE/NAME): 'agent endpoints' lists those of this node\n")

	next := folderOf(t, map[string]string{"deny.yaml": denyAll})
	code, out, errs := call(t, "plan", "--on-top", next)
	require.Zero(t, code, errs)
	require.Contains(t, out, "Objects:\n  + Policy/shop/knp.default.deny\nKernel:\n")
	require.Contains(t, out, "Deny, was Allow\n")
	code, out, _ = call(t, "plan", dir)
	require.Zero(t, code)
	require.Contains(t, out, "Objects:\n  none changes\nKernel:\n  nothing changes\nFlows:\n  of ")
	code, out, _ = call(t, "plan", dir, "-o", "json")
	require.Zero(t, code)
	require.Contains(t, out, `"flips": [],`)
}

// screen receives the output of a running command, and reports when it contains a text.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := strings.Contains(s.text.String(), s.want)
	n, err := s.text.Write(p)
	if !before && strings.Contains(s.text.String(), s.want) {
		close(s.seen)
	}
	return n, err
}

func TestWatch(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod})
	startAnAgent(t, dir)
	for format, want := range map[string][2]string{
		"text": {" watching", " applied  "}, "json": {`"type":"watching"`, `"type":"applied"`},
	} {
		out := &screen{want: want[0], seen: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() { code <- agent(ctx, cli.Console{Out: out, Err: out}, []string{"watch", "-o", format}) }()
		<-out.seen
		out.mu.Lock()
		out.want, out.seen = want[1], make(chan struct{})
		seen := out.seen
		out.mu.Unlock()
		half := filepath.Join(dir, ".half")
		require.NoError(t, os.WriteFile(half, []byte(strings.Replace(denyAll, "deny", format, 1)), 0o600))
		require.NoError(t, os.Rename(half, filepath.Join(dir, format+".yaml")))
		select {
		case <-seen:
		case <-time.After(waitTimeout):
			t.Fatal("no event was printed")
		}
		cancel()
		require.Zero(t, <-code)
	}
}
