// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/policy"
)

// node represents an agent that applies all updates at once.
type node struct{ inSync chan struct{} }

func (n node) Update(_ context.Context, updates []policy.Update) error {
	for _, u := range updates {
		fmt.Println("n1:", u.Key)
	}
	return nil
}

func (n node) InSync(context.Context) error {
	close(n.inSync)
	return nil
}

// A policy is written, and then applied by the only node.
func Example() {
	endpoint, stop := exampleServer()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}

	client, err := etcd.NewClient(etcd.Config{Endpoints: []string{endpoint}, Cluster: "example"})
	must(err)
	defer client.Close()
	store, err := etcd.NewStore(etcd.StoreConfig{Client: client})
	must(err)
	_, err = store.Put(ctx, &policy.Node{Name: "n1"}, etcd.Any)
	must(err)
	_, err = store.Put(ctx, &policy.Policy{Namespace: "shop", Name: "web", Selector: `app == "web"`}, etcd.Absent)
	must(err)
	must(store.Init(ctx)) // from now on, Sources read the objects
	key := policy.Key{Kind: policy.KindPolicy, Namespace: "shop", Name: "web"}
	applied, err := store.Applied(ctx, key)
	must(err)
	fmt.Println("applied on", applied)

	// On the node:
	reporter, err := etcd.NewReporter(etcd.ReporterConfig{Client: client, Node: "n1"})
	must(err)
	source, err := etcd.NewSource(etcd.SourceConfig{Client: client, Hooks: etcd.SourceHooks{
		// 		// This receiver applies everything at once.
		Delivered: func(revision etcd.Revision, history *etcd.History) {
			reporter.Set(etcd.Report{Revision: revision, History: history, InSync: true})
		},
	}})
	must(err)
	n := node{inSync: make(chan struct{})}
	ended := make(chan error, 2)
	go func() { ended <- source.Run(ctx, n) }()
	go func() { ended <- reporter.Run(ctx) }()
	<-n.inSync

	for !applied.Complete() {
		applied, err = store.Applied(ctx, key)
		must(err)
	}
	fmt.Println("applied on", applied)
	cancel()
	<-ended
	<-ended
	// Output:
	// applied on 0/1
	// n1: Node/n1
	// n1: Policy/shop/web
	// applied on 1/1
}

// exampleServer starts an etcd in this process.
func exampleServer() (endpoint string, stop func()) {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		panic(err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		panic(err)
	}
	<-server.Server.ReadyNotify()
	return "http://" + server.Clients[0].Addr().String(), func() {
		server.Close()
		_ = os.RemoveAll(dir)
	}
}
