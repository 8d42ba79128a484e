// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/wayleave/wayleave/datastore/etcd"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// openSources makes sure that there is something to read, and returns a client of the etcd among the settings, nil if there is none.
func openSources(s settings.Settings) (*etcd.Client, error) {
	if s.Etcd == "" {
		return nil, checkDirectories(s)
	}
	if s.Manifests != "" || s.Resources != "" {
		if err := checkDirectories(s); err != nil {
			return nil, err
		}
	}
	return etcdClient(s)
}

// etcdClient returns a client of the etcd among the settings. It does not speak to it yet.
func etcdClient(s settings.Settings) (*etcd.Client, error) {
	if s.Etcd == "" {
		return nil, cli.Usagef("--etcd is required")
	}
	cfg := etcd.Config{
		Prefix: s.EtcdPrefix, Cluster: s.EtcdCluster, Username: s.EtcdUsername,
		TLS: etcd.TLS{CAFile: s.EtcdCAFile, CertFile: s.EtcdCertFile, KeyFile: s.EtcdKeyFile},
	}
	for endpoint := range strings.SplitSeq(s.Etcd, ",") {
		cfg.Endpoints = append(cfg.Endpoints, strings.TrimSpace(endpoint))
	}
	if s.EtcdPasswordFile != "" {
		data, err := os.ReadFile(s.EtcdPasswordFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
		cfg.Password = etcd.Secret(strings.TrimRight(string(data), "\r\n"))
	}
	return etcd.NewClient(cfg)
}
