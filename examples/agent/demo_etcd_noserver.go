// SPDX-License-Identifier: Apache-2.0

//go:build noetcdserver

package main

import "errors"

// serveEtcd returns an error: this binary was built without the etcd server.
func serveEtcd(string) (stop func(), err error) {
	return nil, errors.New("demo: this agent was built without an etcd server (build tag noetcdserver)")
}
