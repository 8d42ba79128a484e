// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/datastore/kubernetes/internal/apiserver"
	"github.com/wayleave/wayleave/policy"
)

// writers is how many writes are made at the same time.
const writers = 16

// backend has the servers that the nodes read from, and writes to them.
type backend interface {
	// server is the server to which the nodes connect.
	server() server
	// processes are the server's processes by name.
	processes() map[string]int
	// create writes new objects, and counts them in done.
	create(ctx context.Context, objects []metav1.Object, done *atomic.Int64) error
	// change writes a changed object. patch is the change as a patch of the old object.
	change(ctx context.Context, o metav1.Object, patch string) error
	// remove deletes a pod.
	remove(ctx context.Context, pod *corev1.Pod) error
	// restart kills the process that the nodes connect to and starts it again.
	restart()
}

// newBackend starts the servers of a backend.
func newBackend(t apiserver.T, name string) (backend, error) {
	if name == backendKubernetes {
		s := apiserver.Start(t, apiserver.Config{})
		cfg := s.REST()
		cfg.QPS, cfg.ContentType = -1, "application/vnd.kubernetes.protobuf"
		c, err := clientset.NewForConfig(cfg)
		return &apiBackend{Server: s, client: c, config: cfg}, err
	}
	e := apiserver.StartEtcd(t)
	b := &etcdBackend{etcd: e, front: e}
	if name == backendProxy {
		b.front = e.Proxy()
	}
	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{e.URL}})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = client.Close() })
	b.store, err = etcd.NewStore(etcd.StoreConfig{Client: client})
	if err != nil {
		return nil, err
	}
	return b, b.store.Init(t.Context())
}

// apiBackend is an API server.
type apiBackend struct {
	*apiserver.Server
	client clientset.Interface
	config *rest.Config
}

// server returns the API server. The nodes connect to it as the user of a DaemonSet's pods. The API
// server limits how many requests of such users it serves at the same time, and does not limit
// those of administrators.
func (b *apiBackend) server() server {
	return server{
		Host: b.config.Host, Token: b.config.BearerToken, CA: b.config.CAData,
		User:   "system:serviceaccount:kube-system:wayleave",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
}

func (b *apiBackend) processes() map[string]int {
	api, etcd := b.PIDs()
	return map[string]int{"kube-apiserver": api, "etcd": etcd}
}

func (b *apiBackend) restart() { b.Restart() }

func (b *apiBackend) create(ctx context.Context, objects []metav1.Object, done *atomic.Int64) error {
	return parallel(ctx, objects, func(o metav1.Object) error {
		defer done.Add(1)
		return b.createOne(ctx, o)
	})
}

func (b *apiBackend) createOne(ctx context.Context, o metav1.Object) (err error) {
	core, options := b.client.CoreV1(), metav1.CreateOptions{}
	switch o := o.(type) {
	case *corev1.Namespace:
		_, err = core.Namespaces().Create(ctx, o, options)
	case *corev1.ServiceAccount:
		_, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options)
	case *corev1.Node:
		var made *corev1.Node
		if made, err = core.Nodes().Create(ctx, o, options); err == nil {
			made.Status = o.Status
			_, err = core.Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
		}
	case *corev1.Pod:
		var made *corev1.Pod
		if made, err = core.Pods(o.Namespace).Create(ctx, o, options); err == nil {
			made.Status = o.Status
			_, err = core.Pods(o.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{})
		}
	case *networkingv1.NetworkPolicy:
		_, err = b.client.NetworkingV1().NetworkPolicies(o.Namespace).Create(ctx, o, options)
	default:
		err = fmt.Errorf("object of type %T", o)
	}
	if err != nil {
		return fmt.Errorf("create %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

func (b *apiBackend) change(ctx context.Context, o metav1.Object, patch string) (err error) {
	kind, options := types.MergePatchType, metav1.PatchOptions{}
	if patch[0] == '[' {
		kind = types.JSONPatchType
	}
	switch o := o.(type) {
	case *corev1.Namespace:
		_, err = b.client.CoreV1().Namespaces().Patch(ctx, o.Name, kind, []byte(patch), options)
	case *corev1.Pod:
		_, err = b.client.CoreV1().Pods(o.Namespace).Patch(ctx, o.Name, kind, []byte(patch), options)
	case *networkingv1.NetworkPolicy:
		_, err = b.client.NetworkingV1().NetworkPolicies(o.Namespace).Patch(ctx, o.Name, kind, []byte(patch), options)
	default:
		err = fmt.Errorf("object of type %T", o)
	}
	return err
}

func (b *apiBackend) remove(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return b.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// etcdBackend is an etcd, with or without a proxy between it and the nodes.
type etcdBackend struct {
	etcd, front *apiserver.Etcd
	store       *etcd.Store
}

func (b *etcdBackend) server() server { return server{Etcd: b.front.URL} }

func (b *etcdBackend) processes() map[string]int {
	m := map[string]int{"etcd": b.etcd.PID()}
	if b.front != b.etcd {
		m["grpc-proxy"] = b.front.PID()
	}
	return m
}

func (b *etcdBackend) restart() { b.front.Restart() }

func (b *etcdBackend) create(ctx context.Context, objects []metav1.Object, done *atomic.Int64) error {
	var all []policy.Update
	for _, o := range objects {
		list, err := updates(o)
		if err != nil {
			return err
		}
		all = append(all, list...)
	}
	for chunk := range slices.Chunk(all, etcd.MaxWrites) {
		if err := b.store.Update(ctx, chunk); err != nil {
			return err
		}
		done.Add(int64(len(chunk)))
	}
	return nil
}

func (b *etcdBackend) change(ctx context.Context, o metav1.Object, _ string) error {
	list, err := updates(o)
	if err != nil {
		return err
	}
	return b.store.Update(ctx, list)
}

func (b *etcdBackend) remove(ctx context.Context, pod *corev1.Pod) error {
	list, err := updates(pod)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Resource = nil
	}
	return b.store.Update(ctx, list)
}

// parallel calls a function for each item, and returns the first error.
func parallel[T any](ctx context.Context, items []T, f func(T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(items) {
					return
				}
				if err := f(items[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
