// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/wayleave/wayleave/datastore/kubernetes"
)

func main() {
	cfg := config{logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&cfg.node, "node", "", "name of this node, as in spec.nodeName of its pods")
	flag.StringVar(&cfg.folder, "folder", "/run/wayleave-daemon", "folder of the socket and the links, for root alone")
	flag.Func("omit", "kinds that are not read, as in nodes,tiers.projectcalico.org", func(kinds string) error {
		cfg.omit = strings.Split(kinds, ",")
		return nil
	})
	kubeconfig := flag.String("kubeconfig", "", "file with the access to the API server; empty is that of a pod")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, cfg, *kubeconfig); err != nil {
		cfg.logger.Error("the daemon ends", "err", err)
		os.Exit(1)
	}
}

// start connects to the API server, and runs a daemon until the context is done.
func start(ctx context.Context, cfg config, kubeconfig string) error {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig %q: %w", kubeconfig, err)
	}
	if cfg.client, err = clientgo.NewForConfig(access); err != nil {
		return err
	}
	if cfg.dynamic, err = dynamic.NewForConfig(access); err != nil {
		return err
	}
	// A daemon that has informers already uses their factory: the Source adds handlers to it.
	cfg.informers = informers.NewSharedInformerFactoryWithOptions(cfg.client, 0,
		informers.WithTransform(kubernetes.Transform))
	d, err := wire(cfg)
	if err != nil {
		return err
	}
	return d.run(ctx)
}
