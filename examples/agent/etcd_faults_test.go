// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// A node never counts an object in the store as applied if it is not. It reports the object at
// fault with the reason, until it is corrected.
func TestFaultsReachTheStore(t *testing.T) {
	ns, dir := nstest.New(t), t.TempDir()
	nstest.NewWorkload(t, ns, "way-web", "10.65.0.1")
	server := startNodeEtcd(t, ns, "http", func(*embed.Config) {})
	raw, store := server.client()
	allow := allowTo("web", 80)
	put(t, store, &policy.Node{Name: "n1"}, workload("web", "10.65.0.1"), allow)
	require.NoError(t, store.Init(t.Context()))
	startAgentProcess(t, ns, "--etcd", server.url, "--resources", dir)
	applied(t, store, allow.Key())
	faulty := func(key, at policy.Key, want string) {
		t.Helper()
		var last etcd.Progress
		awaitStored(t, raw, want, func() bool {
			var err error
			last, err = store.Applied(t.Context(), key)
			require.NoError(t, err)
			return last.Nodes[0].State == etcd.NodeFaulty
		})
		require.Zero(t, last.Applied)
		require.Contains(t, last.Nodes[0].Faults[at], want)
	}

	// Another program wrote an invalid policy, which the graph rejects. A Store refuses to write
	// such objects.
	bad := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "bad"}
	_, err := raw.Put(t.Context(), "/wayleave/default/state/Policy/shop/bad",
		`{"schema":1,"resource":{"kind":"Policy","namespace":"shop","name":"bad","selector":"app =="}}`)
	require.NoError(t, err)
	faulty(bad, bad, "selector")
	put(t, store, &policy.Policy{Namespace: "shop", Name: "bad", Selector: "app == 'db'"})
	applied(t, store, bad)

	// A rule that is not understood is closed; the policy is enforced (S167).
	odd := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "odd"}
	_, err = raw.Put(t.Context(), "/wayleave/default/state/Policy/shop/odd",
		`{"schema":1,"resource":{"kind":"Policy","namespace":"shop","name":"odd","selector":"app == 'db'",`+
			`"ingress":[{"action":"Deny","ports":[80]}]}}`)
	require.NoError(t, err)
	faulty(odd, odd, "in doubt: Policy/shop/odd: ingress[0].ports: unknown field")
	_, err = raw.Delete(t.Context(), "/wayleave/default/state/Policy/shop/odd")
	require.NoError(t, err)
	applied(t, store, allow.Key())

	// An object of an unknown kind.
	gadget := policy.Key{Kind: "Gadget", Namespace: "shop", Name: "x"}
	_, err = raw.Put(t.Context(), "/wayleave/default/state/Gadget/shop/x", `{"schema":1,"resource":{}}`)
	require.NoError(t, err)
	faulty(allow.Key(), gadget, "unknown kind")
	_, err = raw.Delete(t.Context(), "/wayleave/default/state/Gadget/shop/x")
	require.NoError(t, err)
	applied(t, store, allow.Key())

	// S124: an endpoint is down until its interface exists. That is not a fault.
	late := workload("late", "10.65.0.2")
	put(t, store, late)
	state := func(want string) {
		t.Helper()
		await(t, late.Name+" is "+want, func() bool {
			nodes, problems, err := store.Endpoints(t.Context())
			require.NoError(t, err)
			require.Empty(t, problems)
			return nodes["n1"][late.Key()].State == want
		})
	}
	state("down")
	applied(t, store, late.Key())
	nstest.NewWorkload(t, ns, "way-late", "10.65.0.2")
	state("up")

	// A file on the node has another version of the policy, and takes precedence.
	other, err := policy.Encode(allowTo("web", 81))
	require.NoError(t, err)
	file := filepath.Join(dir, "web.json")
	require.NoError(t, os.WriteFile(file+".new", other, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
	faulty(allow.Key(), allow.Key(), "ignored: resources has a different version, which is used")
	require.NoError(t, os.Remove(file))
	applied(t, store, allow.Key())
}
