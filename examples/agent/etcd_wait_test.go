// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// twoAgents are agents of one etcd in one namespace, each with a table of its own.
type twoAgents struct {
	t      *testing.T
	ns     *netns.NS
	server *nodeEtcd
	agents []*agentProcess
	tables []string
}

func newTwoAgents(t *testing.T, dir *string) *twoAgents {
	t.Helper()
	a := &twoAgents{t: t, ns: nstest.New(t), tables: []string{"wayleave", "other"}}
	for i := range a.tables {
		nstest.NewWorkload(t, a.ns, convert.InterfaceName("shop", fmt.Sprint("p", i+1)), fmt.Sprintf("10.65.0.%d", i+1))
	}
	a.server = startNodeEtcd(t, a.ns, "http", func(cfg *embed.Config) { cfg.Dir = *dir })
	for i, table := range a.tables {
		a.agents = append(a.agents, startAgentProcess(t, a.ns, "--etcd", a.server.url, "--http-address", "",
			"--node", fmt.Sprint("n", i+1), "--table", table, "--route-protocol", fmt.Sprint(219+i)))
	}
	return a
}

// manifests returns two nodes with a pod each, and a policy that allows one port.
func (a *twoAgents) manifests(port int) string {
	var text strings.Builder
	text.WriteString("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n")
	for i := range a.tables {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Node\nmetadata: {name: n%d}\n", i+1)
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: p%d}\n"+
			"spec: {nodeName: n%d, containers: [{name: c}]}\nstatus: {podIPs: [{ip: 10.65.0.%d}]}\n", i+1, i+1, i+1)
	}
	fmt.Fprintf(&text, "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n"+
		"metadata: {namespace: shop, name: web}\nspec: {podSelector: {}, ingress: [{ports: [{port: %d}]}]}\n", port)
	return text.String()
}

// reports waits until both agents report to the store.
func (a *twoAgents) reports(raw *clientv3.Client) {
	a.t.Helper()
	await(a.t, "the reports", func() bool {
		found, err := raw.Get(a.t.Context(), "/wayleave/default/agents/", clientv3.WithPrefix())
		require.NoError(a.t, err)
		return len(found.Kvs) == len(a.agents)
	})
}

// apply runs 'agent apply' with a manifest.
func (a *twoAgents) apply(raw *clientv3.Client, out *processOutput, o applyOptions, manifest string) error {
	client, err := etcd.NewClient(etcd.Config{Etcd: raw})
	if err != nil {
		return err
	}
	o.owner = "test"
	return stream{"manifest.yaml": []byte(manifest)}.apply(a.t.Context(), cli.Console{Out: out, Err: out}, client, o)
}

// waits checks that 'apply --init --wait' of a manifest returns once both kernels have a port, and
// not while an agent is stopped.
func (a *twoAgents) waits(raw *clientv3.Client, manifest string, port int) {
	a.t.Helper()
	stopped := a.agents[1].cmd.Process
	nstest.Stop(a.t, stopped)
	var out processOutput
	done := make(chan error, 1)
	go func() { done <- a.apply(raw, &out, applyOptions{init: true, wait: waitTimeout}, manifest) }()
	await(a.t, "one of two", func() bool {
		select {
		case err := <-done:
			require.Fail(a.t, "does not wait", "%v\n%s", err, &out)
		default:
		}
		return strings.Contains(out.String(), "applied on 1/2\n")
	}, func() any { return out.String() })
	require.Contains(a.t, a.kernelState(a.tables[0]), fmt.Sprint(port))
	require.NotContains(a.t, a.kernelState(a.tables[1]), fmt.Sprint(port))
	require.Empty(a.t, done)

	require.NoError(a.t, stopped.Signal(unix.SIGCONT))
	require.NoError(a.t, <-done, &out)
	for _, table := range a.tables {
		require.Contains(a.t, a.kernelState(table), fmt.Sprint(port), "apply has returned")
	}
	require.True(a.t, strings.HasSuffix(out.String(), "applied on 2/2\n"), &out)
}

// kernelState returns the text of a table in the kernel, or the error of nft if there is none.
func (a *twoAgents) kernelState(table string) (rules string) {
	a.t.Helper()
	require.NoError(a.t, a.ns.Do(func() error {
		out, _ := exec.Command(nftPath(), "-s", "list", "table", "inet", table).CombinedOutput()
		rules = string(out)
		return nil
	}))
	return rules
}

// 'apply --init --wait' returns once the change is in the kernel of every node. The store is new,
// or was lost and is filled again with lower revisions, or has the objects already and the manifest
// has only settings.
func TestApplyWithInitWaitsForAllAgents(t *testing.T) {
	dir := t.TempDir()
	a := newTwoAgents(t, &dir)
	raw, _ := a.server.client()
	a.reports(raw)
	a.waits(raw, a.manifests(7001), 7001)
	for port := 7002; port < 7012; port++ { // later revisions than the next store has at first
		require.NoError(t, a.apply(raw, &processOutput{}, applyOptions{}, a.manifests(port)))
	}

	a.server.stop()
	dir = t.TempDir()
	a.server.start(etcdPort)
	raw, _ = a.server.client()
	a.reports(raw)
	a.waits(raw, a.manifests(7101), 7101)

	a.server.stop()
	dir = t.TempDir()
	a.server.start(etcdPort)
	raw, _ = a.server.client()
	a.reports(raw)
	require.NoError(t, a.apply(raw, &processOutput{}, applyOptions{}, a.manifests(7201)))
	a.waits(raw, "apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: default}\nspec: {apply-burst: 3}\n",
		7201)
}
