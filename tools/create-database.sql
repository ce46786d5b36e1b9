-- Run by the image of PostgreSQL as its superuser, once, on an empty volume: the database, and the application's role,
-- which owns it and is no superuser.
\set password `cat /run/secrets/database_password`
CREATE ROLE benchapp LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD :'password';
CREATE DATABASE benchapp OWNER benchapp;
REVOKE ALL ON DATABASE benchapp FROM PUBLIC;
