// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/datastore/etcd"
)

func TestSettings(t *testing.T) {
	srv, _, store := newStoreOn(t)
	ctx := t.Context()
	none, err := store.Settings(ctx, "n1")
	require.NoError(t, err)
	require.Equal(t, etcd.Settings{}, none)
	changed := make(chan etcd.Settings, 1)
	failed := make(chan error, 100)
	watch := func(now etcd.Settings) {
		background(t, func(ctx context.Context) error {
			s, err := store.WatchSettings(ctx, "n1", now, func(err error) { failed <- err })
			if err == nil {
				changed <- s
			}
			return err
		})
	}
	watch(none)
	require.NoError(t, store.PutSettings(ctx, "n2", json.RawMessage(`{"a":0}`)))
	require.NoError(t, store.PutSettings(ctx, "", json.RawMessage(`{"a":1}`)))
	first := <-changed
	require.Equal(t, etcd.Settings{Global: json.RawMessage(`{"a":1}`)}, first)
	watch(first)
	raw := rawClient(t, srv.url)
	_, err = raw.Put(ctx, "/wayleave/test/settings/node/n1", `{"schema":9}`)
	require.NoError(t, err)
	require.ErrorIs(t, <-failed, etcd.ErrNewer)
	require.ErrorIs(t, store.PutSettings(ctx, "n1", json.RawMessage(`{"a":2}`)), etcd.ErrNewer)
	require.NoError(t, store.PutSettings(ctx, "n1", nil))
	for err := range failed {
		if err == nil { // they can be read again, and are unchanged
			break
		}
		require.ErrorIs(t, err, etcd.ErrNewer)
	}
	require.NoError(t, store.PutSettings(ctx, "n1", json.RawMessage(`{"a":2}`)))
	second := <-changed
	require.Equal(t, etcd.Settings{Global: first.Global, Node: json.RawMessage(`{"a":2}`)}, second)
	require.NoError(t, store.PutSettings(ctx, "", nil))
	third, err := store.Settings(ctx, "n1")
	require.NoError(t, err)
	require.Nil(t, third.Global)
	require.Error(t, store.PutSettings(ctx, "", json.RawMessage(`[]`)))
	require.Error(t, store.PutSettings(ctx, "a/b", nil))
	_, err = store.Settings(ctx, "")
	require.Error(t, err)
}

// Settings of a newer layout are not overwritten.
func TestNewerSettingsAreNotOverwritten(t *testing.T) {
	srv, _, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	_, err := raw.Put(t.Context(), "/wayleave/test/state/.cluster", `{"schema":9}`)
	require.NoError(t, err)
	require.ErrorIs(t, store.PutSettings(t.Context(), "", json.RawMessage(`{"a":1}`)), etcd.ErrNewer)
	s, err := store.Settings(t.Context(), "n1")
	require.NoError(t, err)
	require.Nil(t, s.Global)
	require.ErrorIs(t, store.PutSettings(t.Context(), "", nil), etcd.ErrNewer)
	require.ErrorIs(t, store.Suspend(t.Context()), etcd.ErrNewer, "otherwise Init could replace it by an older mark")
}

// If the layout becomes newer during a write of an object or of settings, nothing is written.
func TestNewerLayoutPreventsWrite(t *testing.T) {
	srv, _, store := newStoreOn(t)
	for what, write := range map[string]func(*etcd.Store) error{
		"object":   func(s *etcd.Store) error { _, err := s.Put(t.Context(), profile("a", "1"), etcd.Any); return err },
		"settings": func(s *etcd.Store) error { return s.PutSettings(t.Context(), "", json.RawMessage(`{"a":1}`)) },
	} {
		raw := rawClient(t, srv.url)
		mark := func(value string) {
			_, err := raw.Put(t.Context(), "/wayleave/test/state/.cluster", value)
			require.NoError(t, err)
		}
		mark(`{"schema":1}`)
		raw.KV = &meddlingKV{KV: raw.KV, after: 1, meddle: func() { mark(`{"schema":9}`) }} // after it was read
		require.ErrorIs(t, write(newStore(t, newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}))), etcd.ErrNewer,
			what)
	}
	list, err := store.List(t.Context(), etcd.Query{})
	require.NoError(t, err)
	require.Empty(t, list.Objects)
	s, err := store.Settings(t.Context(), "n1")
	require.NoError(t, err)
	require.Equal(t, etcd.Settings{}, s)
}

// After a restore to an earlier revision, a watch reports no changes. The settings are read at the
// next recheck.
func TestSettingsSilentWatch(t *testing.T) {
	srv, _, store := newStoreOn(t)
	raw := rawClient(t, srv.url)
	raw.Watcher = &silentWatcher{Watcher: raw.Watcher, silent: true}
	store, err := etcd.NewStore(etcd.StoreConfig{
		Client: newClientOf(t, etcd.Config{Etcd: raw, Cluster: "test"}), Recheck: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	changed := make(chan etcd.Settings, 1)
	background(t, func(ctx context.Context) error {
		s, err := store.WatchSettings(ctx, "n1", etcd.Settings{}, func(err error) { t.Error(err) })
		changed <- s
		return err
	})
	require.NoError(t, store.PutSettings(t.Context(), "", json.RawMessage(`{"a":1}`)))
	require.JSONEq(t, `{"a":1}`, string((<-changed).Global))
}

// If the settings disappear together with the mark, the agent keeps its settings.
func TestSettingsOfLostStoreAreKept(t *testing.T) {
	srv, _, store := newStoreOn(t)
	ctx := t.Context()
	require.NoError(t, store.PutSettings(ctx, "", json.RawMessage(`{"a":1}`)))
	now, err := store.Settings(ctx, "n1")
	require.NoError(t, err)
	changed := make(chan etcd.Settings, 1)
	failed := make(chan error, 100)
	background(t, func(ctx context.Context) error {
		s, err := store.WatchSettings(ctx, "n1", now, func(err error) { failed <- err })
		changed <- s
		return err
	})
	_, err = rawClient(t, srv.url).Delete(ctx, "/wayleave/test/", clientv3.WithPrefix())
	require.NoError(t, err)
	select {
	case err := <-failed:
		require.ErrorIs(t, err, etcd.ErrNotInitialised)
	case s := <-changed:
		require.Equal(t, now, s, "the settings were removed")
	}
	_, err = store.Settings(ctx, "n1")
	require.ErrorIs(t, err, etcd.ErrNotInitialised, "an agent that starts meanwhile waits")
	require.NoError(t, store.PutSettings(ctx, "", json.RawMessage(`{"a":2}`)))
	require.NoError(t, store.Init(ctx))
	require.JSONEq(t, `{"a":2}`, string((<-changed).Global))
}
