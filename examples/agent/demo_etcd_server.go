// SPDX-License-Identifier: Apache-2.0

//go:build !noetcdserver

package main

import (
	"fmt"
	"net/url"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// serveEtcd starts an etcd in this process. Its sockets are in the network namespace of the calling
// thread.
func serveEtcd(dir string) (stop func(), err error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true // the data is removed at the end
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: fmt.Sprintf("0.0.0.0:%d", etcdPort)}}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("demo: start etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
		return server.Close, nil
	case err = <-server.Err():
	case <-time.After(waitTimeout):
		err = fmt.Errorf("not ready after %s", waitTimeout)
	}
	server.Close()
	return nil, fmt.Errorf("demo: start etcd: %w", err)
}
