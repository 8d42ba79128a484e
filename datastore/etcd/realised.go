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

// NodeState says how far a node is with an object.
type NodeState string

// The states of a node.
const (
	// NodeRealised: it is in force, and nothing on the node is at fault.
	NodeRealised NodeState = "realised"
	// NodeBehind: the node is there, and has not got so far, or has not confirmed its report since
	// the servers elected a leader: a restored backup may hold reports of its time. A Reporter
	// confirms within a third of its TTL.
	NodeBehind NodeState = "behind"
	// NodeFaulty: the node has got so far, and something on it is at fault; it may be another
	// object.
	NodeFaulty NodeState = "faulty"
	// NodeSilent: there is a policy.Node of that name, and no report, or one that this version
	// cannot read.
	NodeSilent NodeState = "silent"
)

// NodeRealisation is how far one node is.
type NodeRealisation struct {
	// Node that is meant.
	Node string
	// State of the node.
	State NodeState
	// Revision that the node has in force; 0 where it is silent, not in sync or not confirmed.
	Revision Revision
	// Faults are the objects at fault on the node, with the reason, the first MaxFaults of Faulty.
	Faults map[policy.Key]string
	// Faulty is how many there are.
	Faulty int
}

// Realisation says on which nodes a revision is in force.
type Realisation struct {
	// Revision that is asked for: for Store.Realised, that of the object.
	Revision Revision
	// Nodes that there are: those with a policy.Node, and those that report. Sorted by name.
	Nodes []NodeRealisation
	// Realised is on how many of them it is in force.
	Realised int
}

// Complete reports whether it is in force on every node; false where there is none.
func (r Realisation) Complete() bool { return r.Realised == len(r.Nodes) && r.Realised > 0 }

// String returns "2/3".
func (r Realisation) String() string { return fmt.Sprintf("%d/%d", r.Realised, len(r.Nodes)) }

// Realised says on which nodes an object is in force as it is now. Everything that it says is of
// one moment.
//
// An object is in force on a node that has all changes up to that object's revision in force. Once
// an object is deleted there is nothing to ask for: use RealisedAt with the revision that Delete
// returned. Errors: ErrNotFound, or the client's.
func (s *Store) Realised(ctx context.Context, key policy.Key) (Realisation, error) {
	if err := checkKey(key); err != nil {
		return Realisation{}, err
	}
	return s.realised(ctx, key, 0)
}

// RealisedAt says on which nodes everything up to a revision is in force: one at which something
// was written, as of a Delete, or that of Barrier. Errors: the client's.
func (s *Store) RealisedAt(ctx context.Context, revision Revision) (Realisation, error) {
	return s.realised(ctx, policy.Key{}, revision)
}

func (s *Store) realised(ctx context.Context, key policy.Key, revision Revision) (Realisation, error) {
	etcd, ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return Realisation{}, err
	}
	defer cancel()
	response, err := etcd.Txn(ctx).Then(
		clientv3.OpGet(s.client.key(partState+path(key))),
		clientv3.OpGet(s.client.key(partState+string(policy.KindNode)+"/"), clientv3.WithPrefix(),
			clientv3.WithKeysOnly()),
		clientv3.OpGet(s.client.key(partAgents), clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return Realisation{}, fmt.Errorf("etcd: realised: %w", s.client.explain(err))
	}
	found := func(i int) []*mvccpb.KeyValue { return response.Responses[i].GetResponseRange().Kvs }
	if key != (policy.Key{}) {
		if len(found(0)) == 0 {
			return Realisation{}, fmt.Errorf("etcd: realised %s: %w", key, ErrNotFound)
		}
		revision = Revision(found(0)[0].ModRevision)
	}
	nodes := map[string]NodeRealisation{}
	for _, kv := range found(1) {
		if key, err := parsePath(s.client.rel(kv.Key)[len(partState):]); err == nil {
			nodes[key.Name] = NodeRealisation{Node: key.Name, State: NodeSilent}
		}
	}
	for _, kv := range found(2) {
		node := s.client.rel(kv.Key)[len(partAgents):]
		nodes[node] = judge(node, revision, kv.Value, response.Header)
	}
	r := Realisation{Revision: revision, Nodes: slices.Collect(maps.Values(nodes))}
	slices.SortFunc(r.Nodes, func(a, b NodeRealisation) int { return cmp.Compare(a.Node, b.Node) })
	for _, n := range r.Nodes {
		if n.State == NodeRealised {
			r.Realised++
		}
	}
	return r, nil
}

// judge says how far a node is that sent a report.
func judge(node string, revision Revision, value []byte, now *etcdserverpb.ResponseHeader) NodeRealisation {
	n := NodeRealisation{Node: node, State: NodeSilent}
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
		n.State = NodeRealised
	}
	n.Revision = v.Revision
	return n
}

// Endpoints returns the status of every endpoint that nodes report, by node. Of a node that is not
// reporting there is none. Problems are values that cannot be read. Errors: the client's.
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
