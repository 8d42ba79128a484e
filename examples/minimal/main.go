// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	cfg := config{logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&cfg.manifests, "manifests", "/etc/wayleave", "folder of manifests")
	flag.StringVar(&cfg.node, "node", "", "name of this node, as spec.nodeName of its pods has it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		cfg.logger.Error("the agent ends", "err", err)
		os.Exit(1)
	}
}

// run runs an agent until the context is done.
func run(ctx context.Context, cfg config) error {
	a, err := newAgent(cfg)
	if err != nil {
		return err
	}
	return a.run(ctx)
}
