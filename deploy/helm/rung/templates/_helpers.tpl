{{- define "rung.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-rung" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "rung.selector" -}}
app.kubernetes.io/name: rung
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rung.labels" -}}
{{ include "rung.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "rung.account" -}}
{{- .Values.serviceAccount.name | default (include "rung.name" .) }}
{{- end }}

{{- define "rung.image" -}}
{{- $repository := required "set image.repository to an image with the programs rung and step-runner in /usr/local/bin" .Values.image.repository -}}
{{- if .Values.image.digest }}{{ $repository }}@{{ .Values.image.digest }}{{ else }}{{ $repository }}:{{ required "set image.digest, or image.tag" .Values.image.tag }}{{ end }}
{{- end }}

{{- define "rung.shared" -}}
{{- if .Values.shared.namespace }}
{{- if not .Values.shared.keySecret }}{{ fail "set shared.keySecret to a secret whose entry key is the output of `openssl rand -base64 32`" }}{{ end }}
{{- if and .Values.config (not (contains "state_storage.kubernetes" .Values.config)) }}{{ fail (printf "config has no [state_storage.kubernetes]: add it with namespace = %q" .Values.shared.namespace) }}{{ end }}
{{- if .Values.state.existingClaim }}{{ fail "state.existingClaim is for one manager; remove it, or shared.namespace" }}{{ end }}
{{- else if gt (int .Values.replicas) 1 }}{{ fail "replicas are more than one: set shared.namespace, where they share their state" }}
{{- end }}
{{- end }}

{{- define "rung.secret" -}}
{{- if and .Values.config .Values.existingSecret }}{{ fail "set either config or existingSecret, not both" }}{{ end -}}
{{- if not (or .Values.config .Values.existingSecret) }}{{ fail "set config to the text of config.toml, or existingSecret to a secret that has it" }}{{ end -}}
{{- .Values.existingSecret | default (include "rung.name" .) }}
{{- end }}
