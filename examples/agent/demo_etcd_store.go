// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/wayleave/wayleave/internal/netns"
)

// etcdPort is the port of the demo's etcd.
const etcdPort = 2379

// demoStore is an etcd in this process. Its sockets are in a separate network namespace.
type demoStore struct {
	ns    *netns.NS
	dir   string
	stop  func() // nil before the server runs
	links byte
}

// startStore starts an etcd.
func startStore() (*demoStore, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	s := &demoStore{ns: ns}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *demoStore) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "wayleave-demo-etcd-"); err != nil {
		return err
	}
	// The server opens its sockets before serveEtcd returns.
	return s.ns.Do(func() (err error) {
		s.stop, err = serveEtcd(s.dir)
		return err
	})
}

// link links a namespace to the namespace of the etcd. It returns the etcd's endpoint as seen from
// the linked namespace.
func (s *demoStore) link(ns *netns.NS, name string) (endpoint string, err error) {
	here, there := "to-"+name, "store"
	if _, _, err := netns.Veth(netns.End{NS: s.ns, Name: here}, netns.End{NS: ns, Name: there}); err != nil {
		return "", err
	}
	ours := netip.AddrFrom4([4]byte{192, 0, 2, 2 * s.links})
	theirs := ours.Next()
	s.links++
	err = errors.Join(s.ns.AddAddr(here, netip.PrefixFrom(ours, 31)), ns.AddAddr(there, netip.PrefixFrom(theirs, 31)))
	return fmt.Sprintf("http://%s:%d", ours, etcdPort), err
}

// clientFrom returns a client whose connections are made in a namespace. changes can change the
// configuration of the client.
func clientFrom(ns *netns.NS, endpoint string, changes ...func(*clientv3.Config)) (*clientv3.Client, error) {
	dial := func(ctx context.Context, address string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
			return err
		})
		return conn, err
	}
	cfg := clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
	}
	for _, change := range changes {
		change(&cfg)
	}
	client, err := clientv3.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return client, nil
}

// close ends the etcd and removes its data.
func (s *demoStore) close() error {
	if s.stop != nil {
		s.stop()
	}
	errs := []error{s.ns.Close()}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
