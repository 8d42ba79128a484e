// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// errOtherCluster means that the server serves another cluster than before, for example because it
// lost its data. Its objects are not those of this node's cluster.
var errOtherCluster = errors.New("the server has another cluster than before: namespace kube-system is another one")

// cluster identifies the cluster by the UID of the namespace kube-system. That namespace is never
// deleted, and a backup has it with the same UID.
type cluster struct {
	client kubernetes.Interface
	mu     sync.Mutex
	uid    types.UID // empty if not known
}

// check returns errOtherCluster if the server serves another cluster than at the first call. If the
// namespace cannot be read for lack of rights, or never existed, every cluster is accepted.
func (c *cluster) check(ctx context.Context) error {
	namespace, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	c.mu.Lock()
	defer c.mu.Unlock()
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
