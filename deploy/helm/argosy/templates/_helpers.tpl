{{- define "argosy.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "argosy.labels" -}}
app.kubernetes.io/name: argosy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "argosy.selector" -}}
app.kubernetes.io/name: argosy
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "argosy.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Where the shared server is: a value of an environment variable, from the values or from a secret. */}}
{{- define "argosy.sharedUrl" -}}
{{- if .Values.registry.urlSecret.name -}}
valueFrom:
  secretKeyRef:
    name: {{ .Values.registry.urlSecret.name }}
    key: {{ .Values.registry.urlSecret.key }}
{{- else if .Values.registry.url -}}
value: {{ .Values.registry.url | quote }}
{{- else -}}
value: {{ printf "redis://%s-redis:6379" (include "argosy.name" .) | quote }}
{{- end -}}
{{- end -}}

{{/* Environment variables of every process. */}}
{{- define "argosy.env" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: ARGOSY_NODE_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: ARGOSY_NODE_HOST
  value: "0.0.0.0"
- name: ARGOSY_NODE_PORT
  value: "6070"
- name: ARGOSY_NODE_ADDRESS
  value: "$(POD_IP):6070"
- name: ARGOSY_NODE_DATA_DIR
  value: /data
- name: ARGOSY_FETCH_DIR
  value: /mirrors
- name: ARGOSY_FETCH_DIR_BYTES_MAX
  value: {{ .Values.search.mirrors.bytesMax | int64 | quote }}
- name: ARGOSY_FETCH_REPOSITORY_BYTES_MAX
  value: {{ .Values.search.mirrors.bytesMax | int64 | quote }}
- name: ARGOSY_LOG_FORMAT
  value: json
- name: ARGOSY_REGISTRY_NAMESPACE
  value: {{ .Values.registry.namespace | quote }}
{{- if eq .Values.registry.backend "redis" }}
- name: ARGOSY_REGISTRY_URL
  {{- include "argosy.sharedUrl" . | nindent 2 }}
- name: ARGOSY_REGISTRY_IS_SHARED
  value: "true"
- name: ARGOSY_OWNERSHIP_STORE
  {{- if .Values.ownership.store }}
  value: {{ .Values.ownership.store | quote }}
  {{- else }}
  {{- include "argosy.sharedUrl" . | nindent 2 }}
  {{- end }}
{{- else }}
- name: ARGOSY_REGISTRY_URL
  value: {{ printf "sqlite:///%s" .Values.registry.path | quote }}
{{- end }}
- name: ARGOSY_OWNERSHIP_TTL_S
  value: {{ .Values.ownership.ttlSeconds | quote }}
- name: ARGOSY_OWNERSHIP_WINDOW_S
  value: {{ .Values.ownership.windowSeconds | quote }}
- name: ARGOSY_OWNERSHIP_DRAIN_TIMEOUT_S
  value: {{ .Values.search.drainSeconds | quote }}
{{- if .Values.search.replicas }}
- name: ARGOSY_OWNERSHIP_MEMBERS_MIN
  value: {{ .Values.search.replicas | quote }}
{{- end }}
{{- if eq .Values.rateLimit.searchUi.backend "redis" }}
- name: ARGOSY_THROTTLE_STORE
  {{- include "argosy.sharedUrl" . | nindent 2 }}
{{- end }}
{{- if .Values.tokens.secretName }}
{{- range $name, $key := dict "ARGOSY_NODE_ADMIN_TOKEN" .Values.tokens.adminKey "ARGOSY_NODE_FLEET_TOKEN" .Values.tokens.fleetKey "ARGOSY_API_WEBHOOK_SECRET" .Values.tokens.webhookKey }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.tokens.secretName }}
      key: {{ $key }}
      optional: true
{{- end }}
{{- end }}
{{- if .Values.credentials.secretName }}
- name: ARGOSY_FETCH_CREDENTIALS_FILE
  value: {{ printf "/credentials/%s" .Values.credentials.key | quote }}
{{- end }}
{{- if .Values.tracing.endpoint }}
- name: ARGOSY_TRACING_ENDPOINT
  value: {{ .Values.tracing.endpoint | quote }}
{{- end }}
{{- end -}}

{{/* Processes only read the image and write under /data. */}}
{{- define "argosy.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "argosy.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "argosy.volumeMounts" -}}
- name: data
  mountPath: /data
- name: mirrors
  mountPath: /mirrors
- name: tmp
  mountPath: /tmp
{{- if .Values.credentials.secretName }}
- name: credentials
  mountPath: /credentials
  readOnly: true
{{- end }}
{{- end -}}

{{- define "argosy.volumes" -}}
- name: tmp
  emptyDir: {}
- name: mirrors                         # a lost mirror is fetched again
  {{- if .Values.search.mirrors.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .Values.search.mirrors.existingClaim }}
  {{- else }}
  emptyDir:                             # twice the limit: a fetch needs space before old mirrors are removed
    sizeLimit: {{ mul 2 (int64 .Values.search.mirrors.bytesMax) | quote }}
  {{- end }}
{{- if .Values.credentials.secretName }}
- name: credentials
  secret:
    secretName: {{ .Values.credentials.secretName }}
    defaultMode: 0440
{{- end }}
{{- end -}}
