// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/wayleave/wayleave/datastore/etcd"
)

// If a password is changed in etcd and then in its file, Source and Reporter read the file again
// and continue.
func TestPasswordIsReadAgain(t *testing.T) {
	srv, _, open := newStoreOn(t)
	update(t, open, set("a", "1"))
	root := users(t, srv)
	file := filepath.Join(t.TempDir(), "password")
	change := func(password string) {
		require.NoError(t, os.WriteFile(file, []byte(password), 0o600))
	}
	change("hush")
	agent := newClientOf(t, etcd.Config{
		Endpoints: []string{srv.url}, Cluster: "test", Username: "agent", RequestTimeout: time.Second,
		ReadPassword: func() (etcd.Secret, error) {
			password, err := os.ReadFile(file)
			return etcd.Secret(password), err
		},
	})
	w := &witness{}
	n1 := newReportingNode(t, "n1", agent, w, shortTTL)
	n1.wait(t, "a=1")
	_, err := root.UserChangePassword(t.Context(), "agent", "hush hush")
	require.NoError(t, err)
	w.waitLost(t, "refused", func(error) bool { return true })
	for says, breakIt := range map[string]func(){
		"no such file": func() { require.NoError(t, os.Remove(file)) }, "it is empty": func() { change("") },
		"authentication failed": func() { change("wrong") },
	} {
		breakIt()
		w.waitLost(t, says, func(err error) bool {
			require.NotContains(t, err.Error(), "hush")
			return strings.Contains(err.Error(), says)
		})
	}
	change("hush hush")
	w.clear()
	w.await(t, "found", w.isFound)
	admin := newStore(t, newClientOf(t, etcd.Config{
		Endpoints: []string{srv.url}, Cluster: "test", Username: "root", Password: "master",
	}))
	update(t, admin, set("a", "2"))
	n1.wait(t, "a=2")
	awaitStored(t, rootClient(t, srv), "the report", func() bool {
		return applied(t, admin, profile("a", "").Key()) == "1/1 n1:applied"
	})
}

// A server with a certificate of another authority is accepted once the CA file has that authority.
func TestAuthoritiesAreReadAgain(t *testing.T) {
	ca, next := newAuthority(t), newAuthority(t)
	next.host = ca.host
	for _, a := range []*authority{ca, next} {
		a.issue(t, "server")
		a.issue(t, "agent")
	}
	srv := newServer(t, ca.protect(t))
	config := func(a *authority) etcd.Config {
		return etcd.Config{
			Endpoints: []string{srv.url}, Cluster: "test", RequestTimeout: time.Second,
			TLS: etcd.TLS{CAFile: a.file("ca.crt"), CertFile: a.file("agent.crt"), KeyFile: a.file("agent.key")},
		}
	}
	store := newStore(t, newClientOf(t, config(ca)))
	require.NoError(t, store.Init(t.Context()))
	update(t, store, set("a", "1"))
	w, r := &witness{}, newReceiver()
	start(t, quick(newClientOf(t, config(ca)), w), r)
	r.wait(t, "a=1")
	srv.stop()
	srv.config.ClientTLSInfo = transport.TLSInfo{
		CertFile: next.file("server.crt"), KeyFile: next.file("server.key"), TrustedCAFile: next.file("ca.crt"),
		ClientCertAuth: true,
	}
	srv.start(t)
	w.waitLost(t, "not trusted", func(err error) bool {
		return strings.Contains(err.Error(), "signed by unknown authority")
	})
	for _, name := range []string{"ca.crt", "agent.crt", "agent.key"} {
		require.NoError(t, os.Rename(next.file(name), ca.file(name)))
	}
	w.clear()
	w.await(t, "found", w.isFound)
	update(t, newStore(t, newClientOf(t, config(ca))), set("a", "2"))
	r.wait(t, "a=2")
}
