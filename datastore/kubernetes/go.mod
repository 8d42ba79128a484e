module github.com/wayleave/wayleave/datastore/kubernetes

go 1.25.0

require (
	github.com/wayleave/wayleave v0.1.0
	github.com/wayleave/wayleave/kubernetes v0.1.0
	k8s.io/api v0.35.10
	k8s.io/apimachinery v0.35.10
	k8s.io/client-go v0.35.10
)
