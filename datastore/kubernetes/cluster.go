// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// errOtherCluster means that the server serves another cluster than before, for example because it
// lost its data. Its objects are not those of this node's cluster.
var errOtherCluster = errors.New(
	"the API server serves a different cluster: the UID of namespace kube-system has changed",
)

// cluster identifies the cluster by the UID of the namespace kube-system. That namespace is never
// deleted, and a backup has it with the same UID.
type cluster struct {
	client kubernetes.Interface
	mu     sync.Mutex
	uid    types.UID // empty if not known
	// running is the query in flight, and next the one that is sent after it. Each is nil if there
	// is none.
	running, next *query
}

// query is one query of the UID. Its error is set before done is closed.
type query struct {
	done chan struct{}
	err  error
}

// check returns errOtherCluster if the server serves another cluster than at the first call. If the
// namespace cannot be read for lack of rights, or never existed, every cluster is accepted.
//
// Concurrent callers share one query that is sent after they call. The response to an earlier query
// may be from another server. The readers of all kinds call check when the Source starts and when
// it connects again. A query for each reader of many nodes would overload the server.
func (c *cluster) check(ctx context.Context) error {
	c.mu.Lock()
	running, q := c.running, c.next
	first := q == nil
	if first {
		q = &query{done: make(chan struct{})}
		c.next = q
	}
	c.mu.Unlock()
	if !first {
		return q.wait(ctx)
	}
	err := error(nil)
	if running != nil {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-running.done:
		}
	}
	c.mu.Lock()
	c.running, c.next = q, nil
	c.mu.Unlock()
	var namespace *corev1.Namespace
	if err == nil {
		namespace, err = c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q.err = c.compareLocked(namespace, err)
	if c.running == q {
		c.running = nil
	}
	close(q.done)
	return q.err
}

// wait returns the error of the query, or that of a context that ends before.
func (q *query) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-q.done:
		return q.err
	}
}

// compareLocked compares the namespace that the server has with that of the first call.
func (c *cluster) compareLocked(namespace *corev1.Namespace, err error) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err) && c.uid == "":
		return nil
	case apierrors.IsNotFound(err):
		return errOtherCluster
	case err != nil:
		return err
	case c.uid == "":
		c.uid = namespace.UID
	case c.uid != namespace.UID:
		return errOtherCluster
	}
	return nil
}
