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

// errOtherCluster means that the server does not have the cluster that was read before, for example because it
// lost its data. What it has says nothing about the cluster of this node.
var errOtherCluster = errors.New("the server has another cluster than before: namespace kube-system is another one")

// cluster identifies the cluster that is read: by the UID of the namespace kube-system, which is never deleted
// and which a backup has as well.
type cluster struct {
	client kubernetes.Interface
	mu     sync.Mutex
	uid    types.UID // empty if not known
}

// check returns errOtherCluster if the server has another cluster than at the first call. A cluster without that
// namespace, or without rights to it, is not known, and always right.
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
