// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errReplaced = errors.New(
	"etcd: report: another writer changed the report: a second agent uses this node's name, or the store was restored",
)

// lastReport identifies the last value of the agent's key that a Reporter wrote. If the store has
// it, the store has every earlier change, too.
type lastReport struct {
	at      int64            // revision of the write; 0 before the first
	lease   clientv3.LeaseID // of the last attempt to write, which may have succeeded without a response
	history *History         // the history of the last report
}

// is reports whether the store has the last report.
func (l *lastReport) is(agent *mvccpb.KeyValue) bool {
	return agent != nil && (agent.ModRevision == l.at || agent.ModRevision > l.at && agent.Lease == int64(l.lease))
}

// reportWriter writes the keys of a report that differ, with one lease.
type reportWriter struct {
	client  *Client
	etcd    *clientv3.Client
	node    string
	lease   clientv3.LeaseID
	last    *lastReport
	now     *etcdserverpb.ResponseHeader // of the last read of the store; nil before the first write
	written map[string]string            // the value of each key
}

func (w *reportWriter) agentKey() string { return w.client.key(partAgents + w.node) }

// write writes the report. It writes the endpoints first, so that no reader sees a revision before
// the state of its endpoints.
func (w *reportWriter) write(ctx context.Context, report Report) error {
	wanted := map[string]string{}
	for key, status := range report.Endpoints {
		if err := checkKey(key); err != nil {
			return err
		}
		status.Problem = clip(status.Problem)
		value, err := encodeValue(status)
		if err != nil {
			return err
		}
		wanted[w.client.key(partEndpoints+w.node+"/"+path(key))] = string(value)
	}
	if err := w.readStore(ctx, report); err != nil {
		return err
	}
	agent, err := w.agent(report)
	if err != nil {
		return err
	}
	changes := w.changes(wanted, agent)
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(w.agentKey()), "=", w.last.at)}
	holds := w.inHistory(report)
	if holds {
		w.last.history = report.History
		conditions = append(conditions, report.History.isMarked(w.client.key(mark))...)
	}
	for chunk := range slices.Chunk(changes, 2*MaxWrites) {
		done, err := w.commit(ctx, conditions, chunk)
		if err != nil {
			return err
		}
		if !done { // the mark or the report has changed; if it is the report, readStore returns an error
			if holds {
				report.History.finish()
			}
			return w.write(ctx, report)
		}
	}
	return nil
}

// readStore reads the agent's key, to check that the store has the history of the last write. The
// first call writes a report without a revision instead, which is correct for any history.
func (w *reportWriter) readStore(ctx context.Context, report Report) error {
	ctx, cancel := w.client.request(ctx)
	defer cancel()
	if w.now != nil {
		there, err := w.etcd.Get(ctx, w.agentKey())
		switch {
		case err != nil:
			return fmt.Errorf("etcd: report: %w", w.client.explain(err))
		case len(there.Kvs) == 0 || there.Kvs[0].ModRevision != w.last.at:
			return errReplaced
		}
		w.now = there.Header
		return nil
	}
	value, err := encodeValue(report.agent())
	if err != nil {
		return err
	}
	last := *w.last // without this attempt
	w.last.lease = w.lease
	put, err := w.etcd.Put(ctx, w.agentKey(), string(value), clientv3.WithLease(w.lease), clientv3.WithPrevKV())
	if err != nil {
		return fmt.Errorf("etcd: report: %w", w.client.explain(err))
	}
	if last.history != nil && !last.is(put.PrevKv) {
		last.history.finish()
	}
	w.last.at, w.now = put.Header.Revision, put.Header
	w.written[w.agentKey()] = string(value)
	return nil
}

// inHistory reports whether the store has the history of the report. If not, it ends that history.
func (w *reportWriter) inHistory(report Report) bool {
	h := report.History
	if !report.InSync || h == nil || h.finished() {
		return false
	}
	if h.contradicts(int64(report.Revision), w.now) {
		h.finish()
		return false
	}
	return true
}

// agent returns the value of the agent's key.
func (w *reportWriter) agent(report Report) (string, error) {
	v := report.agent()
	if w.inHistory(report) {
		v.Revision, v.InSync, v.Cluster, v.Term = report.Revision, true, w.now.ClusterId, w.now.RaftTerm
	}
	value, err := encodeValue(v)
	return string(value), err
}

// keyValue is a key and its new value; an empty one deletes it.
type keyValue struct{ key, value string }

// changes returns the keys to write. The agent's key is the last one.
func (w *reportWriter) changes(wanted map[string]string, agent string) []keyValue {
	var changes []keyValue
	for key, value := range wanted {
		if w.written[key] != value {
			changes = append(changes, keyValue{key, value})
		}
	}
	for key := range w.written {
		if _, ok := wanted[key]; !ok && key != w.agentKey() {
			changes = append(changes, keyValue{key: key})
		}
	}
	slices.SortFunc(changes, func(a, b keyValue) int { return strings.Compare(a.key, b.key) })
	if w.written[w.agentKey()] != agent {
		changes = append(changes, keyValue{w.agentKey(), agent})
	}
	return changes
}

// commit writes changes if the conditions hold, and reports whether they did.
func (w *reportWriter) commit(ctx context.Context, conditions []clientv3.Cmp, changes []keyValue) (bool, error) {
	var ops []clientv3.Op
	for _, c := range changes {
		if c.value == "" {
			ops = append(ops, clientv3.OpDelete(c.key))
		} else {
			ops = append(ops, clientv3.OpPut(c.key, c.value, clientv3.WithLease(w.lease)))
		}
	}
	ctx, cancel := w.client.request(ctx)
	defer cancel()
	response, err := w.etcd.Txn(ctx).If(conditions...).Then(ops...).Commit()
	if err != nil {
		return false, fmt.Errorf("etcd: report: %w", w.client.explain(err))
	}
	if !response.Succeeded {
		return false, nil
	}
	for _, c := range changes {
		if c.value == "" {
			delete(w.written, c.key)
		} else {
			w.written[c.key] = c.value
		}
		if c.key == w.agentKey() {
			w.last.at = response.Header.Revision
		}
	}
	return true, nil
}
