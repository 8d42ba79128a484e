// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Settings are the settings of an agent, as JSON that the agent interprets.
type Settings struct {
	// Global has the settings for all nodes. The field Node has the settings for one node. Each is
	// nil if there are none. If both have the same setting, the one for the node is used.
	Global, Node json.RawMessage
}

func (s Settings) equal(o Settings) bool {
	return bytes.Equal(s.Global, o.Global) && bytes.Equal(s.Node, o.Node)
}

func settingsPath(node string) string {
	if node == "" {
		return partSettings + "global"
	}
	return partSettings + "node/" + node
}

// PutSettings writes the settings of a node. If node is empty, it writes the settings for all nodes
// (Settings.Global). If settings is nil, it deletes the stored settings. It checks only that the
// settings are a JSON object; the agent validates them.
//
// Errors: an invalid argument; those of the client; a *ValueError, which may wrap ErrNewer, if this
// version cannot read the stored settings. PutSettings does not overwrite such settings, but can
// delete them.
func (s *Store) PutSettings(ctx context.Context, node string, settings json.RawMessage) error {
	if node != "" {
		if err := checkSegment("node", node); err != nil {
			return err
		}
	}
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	key := s.client.key(settingsPath(node))
	write := clientv3.OpDelete(key)
	if settings != nil {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(settings, &object); err != nil || object == nil {
			return errors.New("etcd: settings: not a JSON object")
		}
		value, err := encodeValue(settingsValue{settings})
		if err != nil {
			return err
		}
		write = clientv3.OpPut(key, string(value))
	}
	for done := false; !done; {
		if done, err = s.replaceSettings(ctx, etcd, key, write); err != nil {
			return err
		}
	}
	return nil
}

// replaceSettings makes one write, and reports whether it was done. It fails if another writer
// changes the key meanwhile. Settings that this version cannot read are not overwritten, but can be
// deleted.
func (s *Store) replaceSettings(
	ctx context.Context, etcd *clientv3.Client, key string, write clientv3.Op,
) (done bool, err error) {
	there, err := etcd.Txn(ctx).Then(clientv3.OpGet(s.client.key(mark)), clientv3.OpGet(key)).Commit()
	if err != nil {
		return false, fmt.Errorf("etcd: write settings: %w", s.client.explain(err))
	}
	found := first(there.Responses)
	if found[0] != nil {
		if err := checkMark(found[0].Value); err != nil {
			return false, err
		}
	}
	if _, err := s.setting(found[1]); err != nil && !write.IsDelete() {
		return false, err
	}
	written, err := etcd.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision(s.client.key(mark)), "=", modRevision(found[0])),
		clientv3.Compare(clientv3.ModRevision(key), "=", modRevision(found[1])),
	).Then(write).Commit()
	if err != nil {
		return false, fmt.Errorf("etcd: write settings: %w", s.client.explain(err))
	}
	return written.Succeeded, nil
}

// Settings returns the settings for a node.
//
// Errors: those of the client; a *ValueError, which may wrap ErrNewer; ErrNotInitialised if the
// store has no mark. (The mark is the key that Init creates. If it is missing, settings may be
// lost, or not written yet.)
func (s *Store) Settings(ctx context.Context, node string) (Settings, error) {
	settings, _, err := s.settings(ctx, node)
	return settings, err
}

// settings reads both settings at one revision, which it returns.
func (s *Store) settings(ctx context.Context, node string) (Settings, int64, error) {
	if err := checkSegment("node", node); err != nil {
		return Settings{}, 0, err
	}
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Settings{}, 0, err
	}
	defer cancel()
	response, err := etcd.Txn(ctx).Then(
		clientv3.OpGet(s.client.key(settingsPath(""))), clientv3.OpGet(s.client.key(settingsPath(node))),
		clientv3.OpGet(s.client.key(mark)),
	).Commit()
	if err != nil {
		return Settings{}, 0, fmt.Errorf("etcd: read settings: %w", s.client.explain(err))
	}
	found := first(response.Responses)
	if found[2] == nil {
		return Settings{}, 0, fmt.Errorf("etcd: read settings: %w", ErrNotInitialised)
	}
	var out Settings
	if out.Global, err = s.setting(found[0]); err != nil {
		return Settings{}, 0, err
	}
	if out.Node, err = s.setting(found[1]); err != nil {
		return Settings{}, 0, err
	}
	return out, response.Header.Revision, nil
}

func (s *Store) setting(kv *mvccpb.KeyValue) (json.RawMessage, error) {
	if kv == nil {
		return nil, nil
	}
	var v settingsValue
	if err := decodeValue(kv.Value, &v, "settings"); err != nil {
		return nil, &ValueError{Key: s.client.rel(kv.Key), Err: err}
	}
	return v.Settings, nil
}

// WatchSettings blocks until the settings for a node differ from the given ones, and returns the
// new settings. It watches the settings. It also reads them every StoreConfig.Recheck: if the
// database was restored from a backup, a watch may report no changes.
//
// If WatchSettings cannot read or watch the settings, or if the store is not initialised (see
// Settings), it calls failed(err), and continues to wait. When it has read the settings again, it
// calls failed(nil).
//
// Errors: that of ctx; an invalid node.
func (s *Store) WatchSettings(ctx context.Context, node string, now Settings, failed func(error)) (Settings, error) {
	if err := checkSegment("node", node); err != nil {
		return Settings{}, err
	}
	retry := backOff{most: 5 * time.Second}
	for lost := false; ; {
		settings, revision, err := s.settings(ctx, node)
		if err == nil {
			if lost {
				failed(nil)
			}
			lost = false
			if !settings.equal(now) {
				return settings, nil
			}
			if err = s.settingsChanged(ctx, revision); err == nil {
				retry.reset()
				continue
			}
		}
		if ctx.Err() != nil {
			return Settings{}, ctx.Err()
		}
		lost = true
		failed(err)
		retry.wait(ctx)
		if ctx.Err() != nil {
			return Settings{}, ctx.Err()
		}
	}
}

// settingsChanged blocks until any settings have changed after a revision, or until the next
// recheck.
func (s *Store) settingsChanged(ctx context.Context, revision int64) error {
	etcd, err := s.client.conn(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	timer := time.NewTimer(s.recheck)
	defer timer.Stop()
	// Watch returns when the server has answered, so it needs a timeout.
	stop := time.AfterFunc(s.recheck, cancel)
	events := etcd.Watch(ctx, s.client.key(partSettings), clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	stop.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case response, ok := <-events:
			if !ok {
				return fmt.Errorf("etcd: watch settings: %w", s.client.explain(errors.New("lost")))
			}
			if err := response.Err(); err != nil {
				return fmt.Errorf("etcd: watch settings: %w", s.client.explain(err))
			}
			if len(response.Events) > 0 {
				return nil
			}
		}
	}
}
