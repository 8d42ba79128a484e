// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/daemon"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// sharedEtcd is an etcd for a test, and a client of it.
func sharedEtcd(t *testing.T) (*etcd.Client, *etcd.Store, *clientv3.Client) {
	t.Helper()
	s, err := startStore()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	raw, err := clientFrom(s.ns, fmt.Sprintf("http://127.0.0.1:%d", etcdPort))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, raw.Close()) })
	client, err := etcd.NewClient(etcd.Config{Etcd: raw})
	require.NoError(t, err)
	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
	require.NoError(t, err)
	return client, store, raw
}

// Without --init, no node reads the objects: apply reports that, and does not wait.
func TestApplyWithoutInit(t *testing.T) {
	client, _, _ := sharedEtcd(t)
	apply := func(o applyOptions, files map[string]string) (errs string, err error) {
		o.paths, o.owner = []string{folderOf(t, files)}, "test"
		s, err := readStream(o.paths)
		require.NoError(t, err)
		var out bytes.Buffer
		err = s.apply(t.Context(), cli.Console{Out: io.Discard, Err: &out}, client, o)
		return out.String(), err
	}
	files := map[string]string{"a.yaml": goodPolicy}
	errs, err := apply(applyOptions{}, files)
	require.NoError(t, err)
	require.Contains(t, errs, "warning: the key space is not initialised")
	require.Contains(t, errs, "run 'agent apply' again with --init")
	_, err = apply(applyOptions{wait: waitTimeout}, files)
	require.ErrorIs(t, err, etcd.ErrNotInitialised)
	errs, err = apply(applyOptions{init: true}, files)
	require.NoError(t, err)
	require.Empty(t, errs)
	errs, err = apply(applyOptions{}, files)
	require.NoError(t, err)
	require.Empty(t, errs, "the store is initialised")

	_, err = apply(applyOptions{}, nil)
	require.ErrorIs(t, err, etcd.ErrEmptyStream)
	require.ErrorContains(t, err, "To delete all that --owner test wrote, give --allow-empty")
	_, err = apply(applyOptions{empty: true}, nil)
	require.NoError(t, err)
}

// apply does not overwrite objects of another owner. The error names the flag --adopt.
func TestApplyAdopts(t *testing.T) {
	client, _, _ := sharedEtcd(t)
	apply := func(o applyOptions) error {
		s, err := readStream([]string{folderOf(t, map[string]string{"a.yaml": goodPolicy})})
		require.NoError(t, err)
		return s.apply(t.Context(), cli.Console{Out: io.Discard, Err: io.Discard}, client, o)
	}
	require.NoError(t, apply(applyOptions{owner: "first", init: true}))
	err := apply(applyOptions{owner: "second"})
	require.ErrorIs(t, err, etcd.ErrOwned)
	require.ErrorContains(t, err, "--adopt")
	require.NoError(t, apply(applyOptions{owner: "second", adopt: true}))
}

// An agent applies the objects and settings that the command apply wrote. If an object is removed
// from the manifests, apply deletes it.
func TestApplyAndRun(t *testing.T) {
	ns := nstest.New(t)
	client, store, _ := sharedEtcd(t)
	var out bytes.Buffer
	apply := func(o applyOptions, files map[string]string) error {
		s, err := readStream([]string{folderOf(t, files)})
		require.NoError(t, err)
		out.Reset()
		o.owner = "test"
		return s.apply(t.Context(), cli.Console{Out: &out, Err: io.Discard}, client, o)
	}
	config := "apiVersion: wayleave.dev/v1\nkind: AgentConfig\nmetadata: {name: %s}\nspec: {%s}\n"
	global := fmt.Sprintf(config, "default", "apply-burst: 7, resync-interval: 1h")
	own := fmt.Sprintf(config, "node.n1", "apply-burst: 8")
	files := map[string]string{"a.yaml": goodPolicy, "b.yaml": global + "---\n" + own}
	require.NoError(t, apply(applyOptions{init: true}, files))
	require.Contains(t, out.String(), "0 deleted, 2 settings written")

	socket := filepath.Join(t.TempDir(), "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer // read once the agent has ended
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Below: []settings.Layer{{Source: "test", Values: map[string]string{
				"node": "n1", "socket": socket, "http-address": "", "endpoint-dir": "", "resync-interval": "5m",
			}}},
			NetNS: ns.FD(), Etcd: client, Log: &log,
		})
	}()
	list, err := store.List(t.Context(), etcd.Query{Kind: policy.KindPolicy})
	require.NoError(t, err)
	require.Len(t, list.Objects, 1)
	key := list.Objects[0].Resource.Key()
	last, err := follow(t.Context(), func() (etcd.Progress, error) { return store.Applied(t.Context(), key) },
		func(etcd.Progress) {})
	require.NoError(t, err)
	require.Equal(t, etcd.NodeApplied, last.Nodes[0].State)

	queries := api.NewClient(socket)
	values, err := api.Get[[]settings.Value](t.Context(), queries, "/v1/config")
	require.NoError(t, err)
	require.Contains(t, values, settings.Value{Key: "resync-interval", Value: "1h0m0s", Origin: "etcd settings/global"})
	require.Contains(t, values, settings.Value{Key: "apply-burst", Value: "8", Origin: "etcd settings/node/n1"})
	status, err := api.Get[api.Status](t.Context(), queries, "/v1/status")
	require.NoError(t, err)
	require.True(t, status.Ready)
	require.True(t, status.Store.Connected)
	require.GreaterOrEqual(t, status.Store.Applied, int64(list.Objects[0].Revision))

	require.ErrorContains(t, apply(applyOptions{}, map[string]string{"a.yaml": "kind: ["}), "a.yaml")
	require.ErrorContains(
		t, apply(applyOptions{}, map[string]string{"a.yaml": fmt.Sprintf(config, "default", "socket: /tmp/x")}),
		"cannot be set in the datastore",
	)
	require.ErrorIs(t, apply(applyOptions{}, map[string]string{"a.yaml": ""}), etcd.ErrEmptyStream)
	require.NoError(t, apply(applyOptions{}, map[string]string{"a.yaml": global}),
		"a stream of settings deletes no objects")
	_, err = store.Get(t.Context(), key)
	require.NoError(t, err)
	delete(files, "a.yaml")
	files["c.yaml"] = goodPods
	require.NoError(t, apply(applyOptions{wait: waitTimeout}, files))
	require.Contains(t, out.String(), "deleted "+key.String())
	require.Contains(t, out.String(), "applied on 1/1")
	require.NoError(t, apply(applyOptions{wait: waitTimeout}, files), "no object has changed")
	require.Contains(t, out.String(), "applied on 1/1")
	cancel()
	require.NoError(t, <-ended, log.String())
	gone, err := store.AppliedAt(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, gone.Nodes, "an agent that ends deletes its report")
}

// An agent whose store is not initialised is not ready, and reports that. Unreadable objects have
// no effect on its node.
func TestRunWithoutAStore(t *testing.T) {
	ns := nstest.New(t)
	client, store, raw := sharedEtcd(t)
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Below: []settings.Layer{{Source: "test", Values: map[string]string{
				"node": "n1", "socket": socket, "http-address": "", "endpoint-dir": "",
			}}},
			NetNS: ns.FD(), Etcd: client,
		})
	}()
	status := func(will func(api.Status) bool) api.Status {
		for {
			s, err := api.Get[api.Status](t.Context(), api.NewClient(socket), "/v1/status")
			if err == nil && will(s) {
				return s
			}
		}
	}
	s := status(func(s api.Status) bool { return s.Store.Error != "" })
	require.Contains(t, s.Store.Error, etcd.ErrNotInitialised.Error())
	require.Equal(t, []string{"etcd"}, s.Waiting)
	require.False(t, s.Ready)
	require.Contains(t, storeText(s.Store), "not connected: etcd: ")
	require.NoError(t, store.Init(t.Context()))
	s = status(func(s api.Status) bool { return s.Ready })
	require.Empty(t, s.Waiting)

	key := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "newer"}
	put, err := raw.Put(t.Context(), "/wayleave/default/state/Policy/shop/newer", `{"schema":99,"resource":{}}`)
	require.NoError(t, err)
	node := func(revision etcd.Revision, state etcd.NodeState) etcd.NodeProgress {
		for {
			r, err := store.AppliedAt(t.Context(), revision)
			require.NoError(t, err)
			if len(r.Nodes) == 1 && r.Nodes[0].State == state {
				return r.Nodes[0]
			}
		}
	}
	require.Contains(t, node(etcd.Revision(put.Header.Revision), etcd.NodeFaulty).Faults[key], "newer")
	s = status(func(s api.Status) bool { return len(s.Store.Unreadable) == 1 })
	require.Contains(t, storeText(s.Store), "1 objects cannot be read, Policy/shop/newer the first")
	revision, err := store.Delete(t.Context(), key, etcd.Any)
	require.NoError(t, err)
	require.Empty(t, node(revision, etcd.NodeApplied).Faults)
	cancel()
	require.NoError(t, <-ended)
}

func TestEtcdClient(t *testing.T) {
	s := settings.Defaults()
	_, err := openSources(s)
	require.ErrorContains(t, err, "--manifests is required, or --resources, or --etcd for run")
	s.Etcd, s.EtcdUsername, s.EtcdPasswordFile = "https://10.0.0.5:2379, https://10.0.0.6:2379", "me", "/does/not/exist"
	_, err = openSources(s)
	require.ErrorContains(t, err, "--etcd-password-file")
	s.EtcdPasswordFile = filepath.Join(folderOf(t, map[string]string{"password": "secret word\n"}), "password")
	opened, err := openSources(s)
	require.NoError(t, err)
	require.NoError(t, opened.close())
	s.Etcd = "http://10.0.0.5:2379"
	_, err = openSources(s)
	require.ErrorContains(t, err, "a password needs https")
	require.NotContains(t, err.Error(), "secret word")
	s.Manifests = s.EtcdPasswordFile
	_, err = openSources(s)
	require.ErrorContains(t, err, "is not a directory")
	require.ErrorContains(t, err, "a password needs https", "all problems together")
}
