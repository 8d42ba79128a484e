// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// workload returns an endpoint of node n1.
func workload(name, address string) *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: "n1", Interface: "way-" + name,
		Addresses: []netip.Addr{netip.MustParseAddr(address)}, Labels: map[string]string{"app": name},
	}
}

// allowTo returns a policy that lets web reach an app on a TCP port.
func allowTo(app string, port uint16) *policy.Policy {
	return &policy.Policy{
		Namespace: "shop", Name: "to-" + app, Selector: "app == '" + app + "'", Ingress: []policy.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: policy.EntityRule{Selector: "app == 'web'"},
			Destination: policy.EntityRule{Ports: []policy.Port{{First: port, Last: port}}},
		}},
	}
}

// put writes objects in one transaction.
func put(t *testing.T, store *etcd.Store, resources ...policy.Resource) {
	t.Helper()
	var updates []policy.Update
	for _, r := range resources {
		updates = append(updates, policy.Update{Key: r.Key(), Resource: r})
	}
	require.NoError(t, store.Update(t.Context(), updates))
}

// applied waits until an object is applied on node n1.
func applied(t *testing.T, store *etcd.Store, key policy.Key) {
	t.Helper()
	var last etcd.Progress
	await(t, key.String()+" applied", func() (complete bool) {
		var err error
		last, err = store.Applied(t.Context(), key)
		require.NoError(t, err)
		return last.Complete()
	}, func() any { return last })
}

// While the store is unavailable, the kernel keeps every rule, and the agent reports the failure
// and stays ready. When the store is available again, the agent applies the changes, and nothing
// else changes.
func TestStoreOutageKeepsRules(t *testing.T) {
	ns := nstest.New(t)
	nstest.NewWorkload(t, ns, "way-web", "10.65.0.1")
	nstest.NewWorkload(t, ns, "way-db", "10.65.0.2")
	server := startNodeEtcd(t, ns, "http", func(*embed.Config) {})
	_, store := server.client()
	web, db := workload("web", "10.65.0.1"), workload("db", "10.65.0.2")
	put(t, store, &policy.Node{Name: "n1"}, web, db, allowTo("db", 5432), allowTo("web", 80))
	require.NoError(t, store.Init(t.Context()))
	dir := t.TempDir()
	agent := startAgentProcess(t, ns, "--etcd", server.url, "--manifests", dir)
	applied(t, store, allowTo("db", 0).Key())
	before := agent.kernel()
	require.Contains(t, before, "5432")
	nft := startMonitor(t, ns)

	server.stop()
	const refused = "127.0.0.1:2379: connect: connection refused"
	s := agent.status("lost", func(s api.Status) bool { return strings.Contains(s.Store.Error, refused) })
	require.False(t, s.Store.Connected)
	require.True(t, s.Ready, "the kernel keeps the rules")
	require.Contains(t, storeText(s.Store), "not connected: ")
	code, source := agent.source()
	require.Equal(t, 200, code)
	require.Contains(t, source.Note, "etcd cannot be read; its last known objects stay applied: etcd: ")
	require.Contains(t, source.Note, refused)
	code, _ = agent.get("/livez")
	require.Equal(t, 200, code)
	_, metrics := agent.get("/metrics")
	require.Contains(t, string(metrics), "wayleave_store_connected 0\n")
	require.Contains(t, string(metrics), "wayleave_ready 1\n")
	require.NotContains(t, string(metrics), "wayleave_store_failures_total{kind=\"unreachable\"} 0\n")

	// Settings in a file change: the pipeline restarts with the last objects of the store.
	file := filepath.Join(dir, "settings.yaml")
	require.NoError(t, os.WriteFile(file+".new", []byte("apiVersion: wayleave.dev/v1\nkind: AgentConfig\n"+
		"metadata: {name: default}\nspec: {apply-burst: 3}\n"), 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	s = agent.status("restarted", func(s api.Status) bool { return s.Restarts == 1 && s.Ready })
	require.Equal(t, map[string]int{"up": 2}, s.Endpoints)
	require.False(t, s.Store.Connected)
	require.Equal(t, before, agent.kernel())
	require.Empty(t, nft.changes())

	// The store starts again with its data, first on a port that the agent does not use. There, a
	// policy changes, and an endpoint is deleted and created again.
	const elsewhere = 2479
	server.start(elsewhere)
	_, aside := server.client(func(cfg *clientv3.Config) { cfg.Endpoints = []string{"http://127.0.0.1:2479"} })
	put(t, aside, allowTo("db", 5433))
	_, err := aside.Delete(t.Context(), web.Key(), etcd.Any)
	require.NoError(t, err)
	put(t, aside, web)
	server.stop()
	server.start(etcdPort)
	_, store = server.client() // the previous client pauses for long before it connects again
	applied(t, store, web.Key())
	s = agent.status("connected again", func(s api.Status) bool { return s.Store.Connected })
	require.Empty(t, s.Store.Error)
	_, source = agent.source()
	require.Empty(t, source.Note)
	_, metrics = agent.get("/metrics")
	require.Contains(t, string(metrics), "wayleave_store_connected 1\n")
	require.Contains(t, string(metrics), "wayleave_store_lists_total 1\n")
	after := agent.kernel()
	require.Contains(t, after, "5433")
	require.NotContains(t, after, "5432")
	lines := nft.changes()
	require.NotEmpty(t, lines)
	for _, line := range lines {
		for _, kept := range []string{"way-web", "way-db", "10.65.0."} {
			require.NotContains(t, line, kept, "unchanged objects are not rewritten")
		}
	}
}

// Settings that change in the store, for all nodes or for one, take effect while the agent runs,
// without a change of the kernel. Invalid ones, and those of a newer version, are reported, and the
// previous ones stay in effect.
func TestSettingsChangeInTheStore(t *testing.T) {
	ns := nstest.New(t)
	nstest.NewWorkload(t, ns, "way-web", "10.65.0.1")
	server := startNodeEtcd(t, ns, "http", func(*embed.Config) {})
	raw, store := server.client()
	put(t, store, &policy.Node{Name: "n1"}, workload("web", "10.65.0.1"), allowTo("web", 80))
	require.NoError(t, store.Init(t.Context()))
	agent := startAgentProcess(t, ns, "--etcd", server.url)
	applied(t, store, allowTo("web", 0).Key())
	before, nft := agent.kernel(), startMonitor(t, ns)
	set := func(node, json_ string) {
		t.Helper()
		var value json.RawMessage
		if json_ != "" {
			value = json.RawMessage(json_)
		}
		require.NoError(t, store.PutSettings(t.Context(), node, value))
	}
	requireValue := func(value, origin string, restarts uint64) {
		t.Helper()
		agent.status("restarted", func(s api.Status) bool { return s.Restarts == restarts && s.Ready })
		values, err := api.Get[[]settings.Value](t.Context(), api.NewClient(agent.socket), "/v1/config")
		require.NoError(t, err)
		require.Contains(t, values, settings.Value{Key: "resync-interval", Value: value, Origin: origin})
	}
	requireValue("0s", "default", 0)
	set("", `{"resync-interval":"1h"}`)
	requireValue("1h0m0s", "etcd settings/global", 1)
	set("n1", `{"resync-interval":"2h"}`)
	requireValue("2h0m0s", "etcd settings/node/n1", 2)
	set("n2", `{"resync-interval":"3h"}`)

	set("n1", `{"resync-interval":"never"}`)
	s := agent.status("problems", func(s api.Status) bool { return len(s.Settings) > 0 })
	require.Contains(t, s.Settings[0], "etcd settings/node/n1: resync-interval: ")
	requireValue("2h0m0s", "etcd settings/node/n1", 2)
	set("n1", `{"table":"mine"}`)
	agent.status("problems", func(s api.Status) bool {
		return len(s.Settings) > 0 && strings.Contains(s.Settings[0], "table: cannot be set in the datastore")
	})
	_, err := raw.Put(t.Context(), "/wayleave/default/settings/node/n1", `{"schema":99,"settings":{}}`)
	require.NoError(t, err)
	agent.status("problems", func(s api.Status) bool {
		return len(s.Settings) > 0 &&
			strings.Contains(strings.Join(s.Settings, " "), "etcd settings/node/n1: written by a newer version")
	})
	requireValue("2h0m0s", "etcd settings/node/n1", 2)
	set("n1", "")
	requireValue("1h0m0s", "etcd settings/global", 3)
	agent.status("no problems", func(s api.Status) bool { return len(s.Settings) == 0 })

	require.Equal(t, before, agent.kernel())
	require.Empty(t, nft.changes())
	put(t, store, allowTo("web", 81))
	applied(t, store, allowTo("web", 0).Key())
	require.Contains(t, agent.kernel(), "81")
}

// The database is lost, and filled again with lower revisions. A wait for the new objects, as in
// 'apply --init --wait', returns once they are in the kernel. The revision that the agent had
// applied of the lost database has no effect.
func TestApplyWaitsAfterTheStoreWasRebuilt(t *testing.T) {
	ns, dir := nstest.New(t), t.TempDir()
	nstest.NewWorkload(t, ns, "way-web", "10.65.0.1")
	server := startNodeEtcd(t, ns, "http", func(cfg *embed.Config) { cfg.Dir = dir })
	_, store := server.client()
	for port := range uint16(30) {
		put(t, store, &policy.Node{Name: "n1"}, workload("web", "10.65.0.1"), allowTo("web", 1000+port))
	}
	require.NoError(t, store.Init(t.Context()))
	agent := startAgentProcess(t, ns, "--etcd", server.url)
	applied(t, store, allowTo("web", 0).Key())

	server.stop()
	dir = t.TempDir()
	server.start(etcdPort)
	raw, store := server.client()
	awaitStored(t, raw, "a report", func() bool {
		found, err := raw.Get(t.Context(), "/wayleave/default/agents/n1")
		require.NoError(t, err)
		return len(found.Kvs) > 0
	})
	require.Contains(t, agent.kernel(), "1029", "a lost database removes no rules")
	put(t, store, &policy.Node{Name: "n1"}, workload("web", "10.65.0.1"), allowTo("web", 443))
	require.NoError(t, store.Init(t.Context()))
	revision, err := store.Barrier(t.Context())
	require.NoError(t, err)
	require.NoError(t, waitApplied(t.Context(), cli.Console{Out: io.Discard}, store, revision, waitTimeout))
	rules := agent.kernel()
	require.Contains(t, rules, "443")
	require.NotContains(t, rules, "1029")
}
