// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/wayleave/wayleave/policy"
)

// NodeState is the progress of a node.
type NodeState string

// The states of a node.
const (
	// NodeApplied: the node has applied the revision, and its report has no faults.
	NodeApplied NodeState = "applied"
	// NodeBehind: the node has not applied the revision, is not in sync, or has not confirmed its
	// report since the servers last elected a leader. An unconfirmed report does not count, because
	// it may come from a restored backup. A Reporter confirms its report by another write, within a
	// third of its TTL.
	NodeBehind NodeState = "behind"
	// NodeFaulty: the node has applied the revision, but its report has faults. The faults may
	// concern any objects.
	NodeFaulty NodeState = "faulty"
	// NodeSilent: the node has a policy.Node, but no report, or a report that this version cannot
	// read.
	NodeSilent NodeState = "silent"
)

// NodeProgress is the progress of one node.
type NodeProgress struct {
	// Node is the name of the node.
	Node string
	// State of the node.
	State NodeState
	// Revision that the node has applied. It is 0 if the node is silent, is not in sync, or has not
	// confirmed its report (see NodeBehind).
	Revision Revision
	// Faults has the reason for each object at fault on the node, for at most MaxFaults objects.
	Faults map[policy.Key]string
	// Faulty is the number of objects at fault.
	Faulty int
}

// Progress has the nodes, and how many of them have applied a revision.
type Progress struct {
	// Revision that the nodes must have applied. For Store.Applied, it is the revision at which the
	// object was last written.
	Revision Revision
	// Nodes are those with a policy.Node or a report, sorted by name.
	Nodes []NodeProgress
	// Applied is the number of nodes in the state NodeApplied.
	Applied int
}

// Complete reports whether all nodes have applied the revision. It reports false if there are no
// nodes.
func (r Progress) Complete() bool { return r.Applied == len(r.Nodes) && r.Applied > 0 }

// String returns two numbers, as in "2/3": how many nodes have applied the revision, and how many
// nodes there are.
func (r Progress) String() string { return fmt.Sprintf("%d/%d", r.Applied, len(r.Nodes)) }

// Applied returns which nodes have applied the present version of an object. A node has applied it
// if the node has applied all changes up to the object's revision. The result is read at one
// revision of the store.
//
// For a deleted object, use AppliedAt with the revision that Delete returned. Errors: ErrNotFound,
// or those of the client.
func (s *Store) Applied(ctx context.Context, key policy.Key) (Progress, error) {
	if err := checkKey(key); err != nil {
		return Progress{}, err
	}
	return s.applied(ctx, key, 0)
}

// AppliedAt returns which nodes have applied all changes up to a revision. Use a revision that Put,
// Commit, Delete or Barrier returned. Errors: those of the client.
func (s *Store) AppliedAt(ctx context.Context, revision Revision) (Progress, error) {
	return s.applied(ctx, policy.Key{}, revision)
}

func (s *Store) applied(ctx context.Context, key policy.Key, revision Revision) (Progress, error) {
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Progress{}, err
	}
	defer cancel()
	response, err := etcd.Txn(ctx).Then(
		clientv3.OpGet(s.client.key(partState+path(key))),
		clientv3.OpGet(s.client.key(partState+string(policy.KindNode)+"/"), clientv3.WithPrefix(),
			clientv3.WithKeysOnly()),
		clientv3.OpGet(s.client.key(partAgents), clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return Progress{}, fmt.Errorf("etcd: applied: %w", s.client.explain(err))
	}
	found := func(i int) []*mvccpb.KeyValue { return response.Responses[i].GetResponseRange().Kvs }
	if key != (policy.Key{}) {
		if len(found(0)) == 0 {
			return Progress{}, fmt.Errorf("etcd: applied %s: %w", key, ErrNotFound)
		}
		revision = Revision(found(0)[0].ModRevision)
	}
	nodes := map[string]NodeProgress{}
	for _, kv := range found(1) {
		if key, err := parsePath(s.client.rel(kv.Key)[len(partState):]); err == nil {
			nodes[key.Name] = NodeProgress{Node: key.Name, State: NodeSilent}
		}
	}
	for _, kv := range found(2) {
		node := s.client.rel(kv.Key)[len(partAgents):]
		nodes[node] = judge(node, revision, kv.Value, response.Header)
	}
	r := Progress{Revision: revision, Nodes: slices.Collect(maps.Values(nodes))}
	slices.SortFunc(r.Nodes, func(a, b NodeProgress) int { return cmp.Compare(a.Node, b.Node) })
	for _, n := range r.Nodes {
		if n.State == NodeApplied {
			r.Applied++
		}
	}
	return r, nil
}

// judge returns the progress of a node from its report.
func judge(node string, revision Revision, value []byte, now *etcdserverpb.ResponseHeader) NodeProgress {
	n := NodeProgress{Node: node, State: NodeSilent}
	var v agentValue
	if err := v.decode(value); err != nil {
		return n
	}
	n.Faulty = v.Faulty
	for _, f := range v.Faults {
		if n.Faults == nil {
			n.Faults = map[policy.Key]string{}
		}
		n.Faults[f.Key] = f.Problem
	}
	switch {
	case !v.InSync || v.Cluster != now.ClusterId || v.Term != now.RaftTerm:
		n.State = NodeBehind
		return n
	case v.Revision < revision:
		n.State = NodeBehind
	case v.Faulty > 0:
		n.State = NodeFaulty
	default:
		n.State = NodeApplied
	}
	n.Revision = v.Revision
	return n
}

// Endpoints returns the status of every endpoint that nodes report, by the name of the node. A node
// without a report is not in the map. problems has an error for each value that cannot be read.
// Errors: those of the client.
func (s *Store) Endpoints(
	ctx context.Context,
) (status map[string]map[policy.Key]EndpointStatus, problems []error, err error) {
	status = map[string]map[policy.Key]EndpointStatus{}
	_, err = s.scan(ctx, partEndpoints, func(kv *mvccpb.KeyValue) {
		rel := s.client.rel(kv.Key)
		node, key, st, err := endpointStatus(rel, kv.Value)
		if err != nil {
			problems = append(problems, &ValueError{Key: rel, Err: err})
			return
		}
		if status[node] == nil {
			status[node] = map[policy.Key]EndpointStatus{}
		}
		status[node][key] = st
	})
	return status, problems, err
}
