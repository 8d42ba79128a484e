// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// read gives the content of the API to the store, and starts the store once that is complete.
func (d *daemon) read(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(d.cfg.client, 0)
	defer factory.Shutdown()
	defer stop() // before Shutdown, which waits for the informers
	pods := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.setPod(o) },
		UpdateFunc: func(_, o any) { d.setPod(o) },
		DeleteFunc: func(o any) { d.deletePod(o) },
	}
	others := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.change(nil, o) },
		UpdateFunc: func(old, o any) { d.change(old, o) },
		DeleteFunc: func(old any) { d.change(old, nil) },
	}
	core := factory.Core().V1()
	var synced []cache.InformerSynced
	for _, watch := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Pods().Informer(), pods},
		{core.Namespaces().Informer(), others},
		{core.ServiceAccounts().Informer(), others},
		{core.Nodes().Informer(), others},
		{factory.Networking().V1().NetworkPolicies().Informer(), others},
	} {
		registration, err := watch.informer.AddEventHandler(watch.handler)
		if err != nil {
			return err
		}
		// Of the registration: the informer itself has synced before the handler has seen all objects.
		synced = append(synced, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	d.cfg.logger.Info("the API server's objects are complete")
	return d.store.Run(ctx, d.runner)
}

func (d *daemon) setPod(object any) {
	if pod, ok := object.(*corev1.Pod); ok {
		d.pods.Set(pod)
	}
}

func (d *daemon) deletePod(object any) {
	if pod := accessor(object); pod != nil {
		d.pods.Delete(pod.GetNamespace(), pod.GetName())
	}
}

// change replaces the resources of one object by those of its new version; either may be nil.
func (d *daemon) change(from, to any) {
	updates, problems := d.converter.Changes(accessor(from), accessor(to))
	d.report(problems)
	d.update(updates)
}

// accessor returns the object that an informer hands out, or nil. A deleted one may be wrapped, if
// the informer has missed the deletion.
func accessor(object any) metav1.Object {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	accessor, _ := object.(metav1.Object)
	return accessor
}
